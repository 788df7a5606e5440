/* SPDX-License-Identifier: MIT */
/*
 * tree_std.cc - what a C++ program would use for ranges: std::map and absl::btree_map from the
 * first key to the rest. A process of its own: std::map takes its nodes from this program's malloc.
 *
 *	samara-peer-tree map-load/1000 100000     ns of 100000 look-ups among 1000 ranges
 *	samara-peer-tree btree-bytes/1000 2       bytes per range after churn, second number
 */
#include <map>
#include <absl/container/btree_map.h>
#include <unistd.h>
#include "measure.h"
#include "peer.h"
#include "tree_work.h"

static size_t allocated;

/* What was allocated when this container was made: others may be alive. */
struct accounted {
	size_t before = allocated;
};

/* Counts what a container asks for; malloc's own header is left out. */
template <class T> struct counting {
	typedef T value_type;
	counting() = default;
	template <class U> counting(const counting<U> &)
	{
	}
	T *allocate(size_t n)
	{
		allocated += n * sizeof(T);
		return static_cast<T *>(::operator new(n * sizeof(T)));
	}
	void deallocate(T *p, size_t n)
	{
		allocated -= n * sizeof(T);
		::operator delete(p);
	}
	template <class U> bool operator==(const counting<U> &) const
	{
		return true;
	}
	template <class U> bool operator!=(const counting<U> &) const
	{
		return false;
	}
};

struct value {
	uint64_t last;
	struct tree_object *object;
};

typedef counting<std::pair<const uint64_t, value>> alloc;
typedef std::map<uint64_t, value, std::less<uint64_t>, alloc> std_map;
typedef absl::btree_map<uint64_t, value, std::less<uint64_t>, alloc> btree_map;

#define SIDE_FUNCTIONS(container)                                                     \
	struct side : accounted {                                                     \
		container map;                                                        \
	};                                                                            \
	static side *side_make(const void *)                                          \
	{                                                                             \
		return new side;                                                      \
	}                                                                             \
	static void side_free(side *s)                                                \
	{                                                                             \
		delete s;                                                             \
	}                                                                             \
	static inline tree_object *side_load(side *s, uint64_t key)                   \
	{                                                                             \
		auto i = s->map.upper_bound(key);                                     \
                                                                                      \
		if (i == s->map.begin())                                              \
			return nullptr;                                               \
		--i;                                                                  \
		return i->second.last >= key ? i->second.object : nullptr;            \
	}                                                                             \
	static inline void side_store(side *s, tree_object *o)                        \
	{                                                                             \
		s->map.emplace(o->range.first, value{ o->range.last, o });            \
	}                                                                             \
	static inline void side_erase(side *s, tree_object *o)                        \
	{                                                                             \
		s->map.erase(o->range.first);                                         \
	}                                                                             \
	static inline void side_split(side *s, tree_object *o, tree_object *part)     \
	{                                                                             \
		auto i = s->map.find(o->range.first);                                 \
                                                                                      \
		i->second.last = part[0].range.first - 1;                             \
		if (part[0].range.first == o->range.first)                            \
			i->second = value{ part[0].range.last, &part[0] };            \
		else                                                                  \
			s->map.emplace(part[0].range.first,                           \
				       value{ part[0].range.last, &part[0] });        \
		s->map.emplace(part[1].range.first, value{ o->range.last, o });       \
	}                                                                             \
	static inline void side_merge(side *s, tree_object *o, tree_object *part)     \
	{                                                                             \
		auto i = s->map.find(o->range.first);                                 \
                                                                                      \
		(void)part;                                                           \
		i->second = value{ o->range.last, o };                                \
		for (++i; i != s->map.end() && i->first <= o->range.last;)            \
			i = s->map.erase(i);                                          \
	}                                                                             \
	static uint64_t side_walk(side *s)                                            \
	{                                                                             \
		uint64_t n = 0, zero = 0;                                             \
                                                                                      \
		for (const auto &e : s->map) {                                        \
			zero += e.second.object->zero;                                \
			n++;                                                          \
		}                                                                     \
		return n + zero;                                                      \
	}                                                                             \
	static uint64_t side_gap(side *s, uint64_t size, uint64_t max)                \
	{                                                                             \
		auto i = s->map.upper_bound(max);                                     \
		uint64_t end = max + 1;                                               \
                                                                                      \
		while (i != s->map.begin()) {                                         \
			--i;                                                          \
			if (i->second.last < end && end - i->second.last - 1 >= size) \
				break;                                                \
			end = i->first;                                               \
		}                                                                     \
		return end - size;                                                    \
	}                                                                             \
	static side *side_copy(side *s)                                               \
	{                                                                             \
		return new side(*s);                                                  \
	}                                                                             \
	static double side_bytes(side *s)                                             \
	{                                                                             \
		return static_cast<double>(allocated - s->before);                    \
	}

#define PEER_FUNCTIONS                                                                        \
	static tree_run run;                                                                  \
	static size_t run_n;                                                                  \
                                                                                              \
	static uint64_t measure(const char *arg, tree_case_id id, uint64_t n)                 \
	{                                                                                     \
		size_t want = strtoull(arg, nullptr, 0);                                      \
                                                                                              \
		if (want != run_n && run_n)                                                   \
			tree_run_free(&run);                                                  \
		if (want != run_n && !tree_run_make(&run, want, nullptr)) {                   \
			run_n = 0;                                                            \
			return peer_fail("no memory for %zu ranges", want);                   \
		}                                                                             \
		run_n = want;                                                                 \
		return tree_case(&run, id, n);                                                \
	}                                                                                     \
	static uint64_t bytes(const char *arg, uint64_t fill)                                 \
	{                                                                                     \
		if (run_n)                                                                    \
			tree_run_free(&run);                                                  \
		run_n = 0;                                                                    \
		peer_more(tree_bytes(strtoull(arg, nullptr, 0), static_cast<tree_fill>(fill), \
				     nullptr));                                               \
		return 0;                                                                     \
	}                                                                                     \
	template <tree_case_id id> static uint64_t one(const char *arg, uint64_t n)           \
	{                                                                                     \
		return measure(arg, id, n);                                                   \
	}

namespace of_map
{
SIDE_FUNCTIONS(std_map)
#include "tree_cases.h"
PEER_FUNCTIONS
} // namespace of_map

namespace of_btree
{
SIDE_FUNCTIONS(btree_map)
#include "tree_cases.h"
PEER_FUNCTIONS
} // namespace of_btree

#define CASES(prefix, where)                                                \
	{ prefix "-load", where::one<where::TREE_LOAD> },                   \
		{ prefix "-store-gap", where::one<where::TREE_STORE_GAP> }, \
		{ prefix "-erase", where::one<where::TREE_ERASE> },         \
		{ prefix "-split", where::one<where::TREE_SPLIT> },         \
		{ prefix "-merge", where::one<where::TREE_MERGE> },         \
		{ prefix "-step", where::one<where::TREE_STEP> },           \
		{ prefix "-gap16", where::one<where::TREE_GAP16> },         \
		{ prefix "-gap4096", where::one<where::TREE_GAP4096> },     \
		{ prefix "-copy", where::one<where::TREE_COPY> },           \
	{                                                                   \
		prefix "-bytes", where::bytes                               \
	}

static const peer_case cases[] = { CASES("map", of_map),
				   CASES("btree", of_btree),
				   { nullptr, nullptr } };

int main(int argc, char **argv)
{
	/* Nodes on huge pages, as ours are: malloc reads the tunable at its start only. */
	if (!getenv("GLIBC_TUNABLES")) {
		setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 1);
		execv("/proc/self/exe", argv);
	}
	return peer_main(argc, argv, cases);
}
