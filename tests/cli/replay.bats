#!/usr/bin/env bats
# samara replay and samara maps as a user sees them: options, files, messages, exit status.

setup() {
	bats_require_minimum_version 1.5.0
	dir=$BATS_TEST_TMPDIR
	traces=$SAMARA_SOURCE_DIR/traces
}

samara() {
	run timeout 120 "$SAMARA" "$@"
}

# A recording of four calls; mprotect's result on line 3 can be chosen.
small() {
	cat >"$dir/small" <<-END
		100 brk(NULL) = 0x555000000000
		100 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000
		100 mprotect(0x7f0000000000, 4096, PROT_READ) = ${1:-0}
		100 munmap(0x7f0000001000, 4096) = 0
	END
}

@test "replay and maps explain themselves" {
	for command in replay maps; do
		samara $command
		[ "$status" -eq 2 ]
		[[ $output == *"usage: samara $command"* ]]
		samara $command --help
		[ "$status" -eq 0 ]
		[[ $output == *"usage: samara $command"* ]]
	done
}

@test "replay prints calls, figures and differences" {
	samara replay --threads 1 "$traces/sort.strace.xz"
	[ "$status" -eq 0 ]
	[[ $output == *"31 calls on memory of 32, 1 thread, 1 process"* ]]
	[[ $output == *"median"*"p99"*"max"*"total"* ]]
	[[ $output == *"VMAs "*"at the peak"* ]]
	[[ $output == *"lock waits "* && $output == *"lock holds "* && $output == *"order waits "* ]]
	[[ $output == *"mmap_lock"*"waits"*"holds"*"mean hold"* ]]
	[[ $output == *"0 unexplained, 0 explained"* ]]
}

@test "replay takes several files, one after another" {
	samara replay "$traces/sort.strace.xz" "$traces/perl.strace.xz"
	[ "$status" -eq 0 ]
	[[ $output == *sort.strace*perl.strace* ]]
}

@test "a wrong result is shown with file, line, expected and got, and status 1" {
	small "-1 EACCES (Permission denied)"
	samara replay --threads 1 "$dir/small"
	[ "$status" -eq 1 ]
	[[ $output == *"$dir/small:3: mprotect(0x7f0000000000, 0x1000, 0x1): expected -1 EACCES, got 0: unexplained"* ]]
	samara replay --threads 1 --differences 0 "$dir/small"
	[ "$status" -eq 1 ]
	[[ $output != *"small:3"* ]]
}

@test "a limit of the recorded machine is an explained difference" {
	small "-1 ENOMEM (Cannot allocate memory)"
	samara replay "$dir/small"
	[ "$status" -eq 0 ]
	[[ $output == *"0 unexplained, 1 explained"* && $output == *"1: a limit of the recorded machine"* ]]
}

@test "a bad line is reported, counted and skipped; --strict stops there" {
	small
	sed -i '2i hello' "$dir/small"
	for command in replay maps; do
		samara $command "$dir/small"
		[ "$status" -eq 0 ]
		[[ $output == *"$dir/small:2: neither a call nor anything else that strace writes"* ]]
		samara $command --strict "$dir/small"
		[ "$status" -eq 2 ]
		[[ $output == *"$dir/small:2: "* ]]
	done
	samara replay "$dir/small"
	[[ $output == *"1 line could not be read and was skipped"* ]]
}

@test "many bad lines are not all told" {
	small
	for i in $(seq 30); do echo "hello $i" >>"$dir/small"; done
	samara replay "$dir/small"
	[ "$status" -eq 0 ]
	[[ $output == *"20 more lines that could not be read"* ]]
}

@test "empty, binary, truncated, missing, directory: status 2 and the reason" {
	: >"$dir/empty"
	head -c 100000 "$SAMARA" >"$dir/binary"
	xz -dc "$traces/sort.strace.xz" | head -c 1000 >"$dir/cut"
	head -c 500 "$traces/sort.strace.xz" >"$dir/cut.xz" # before its first block ends
	echo "# nothing" >"$dir/nothing"
	for command in replay maps; do
		samara $command "$dir/empty"
		[ "$status" -eq 2 ]
		[[ $output == *"the file is empty"* ]]
		samara $command "$dir/binary"
		[ "$status" -eq 2 ]
		[[ $output == *"not a recording"* ]]
		samara $command "$dir/cut"
		[ "$status" -eq 2 ]
		[[ $output == *"the last line is cut off"* ]]
		samara $command "$dir/cut.xz"
		[ "$status" -eq 2 ]
		[[ $output == *"cut.xz: "* ]]
		samara $command "$dir/nowhere"
		[ "$status" -eq 2 ]
		[[ $output == *"nowhere: No such file or directory"* ]]
		samara $command "$dir"
		[ "$status" -eq 2 ]
		[[ $output == *"Is a directory"* ]]
		samara $command "$dir/nothing"
		[ "$status" -eq 2 ]
		[[ $output == *"no call on memory in it"* ]]
	done
}

@test "of a damaged file, what came before the damage is replayed" {
	head -c 40000 "$traces/app-cycle-100.strace.xz" >"$dir/cut.xz"
	for command in replay maps; do
		run --separate-stderr timeout 120 "$SAMARA" $command "$dir/cut.xz"
		[ "$status" -eq 2 ]
		[[ $stderr == "samara $command: $dir/cut.xz: "*": what follows is missing" ]]
		[ "${#lines[@]}" -gt 10 ]
		[ $command = maps ] || [[ $output == *"4 calls never returned"* ]] # open at the damage
	done
	samara replay --strict "$dir/cut.xz"
	[ "$status" -eq 2 ]
	[ "${#lines[@]}" -eq 1 ]
}

@test "one bad file among good ones gives status 2, the others are replayed" {
	samara replay "$dir/nowhere" "$traces/sort.strace.xz"
	[ "$status" -eq 2 ]
	[[ $output == *"0 unexplained"* ]]
}

@test "wrong options are refused with status 2" {
	small
	samara replay --fly "$dir/small"
	[ "$status" -eq 2 ]
	samara replay --threads 3 "$dir/small"
	[ "$status" -eq 2 ]
	[[ $output == *"--threads is 1 or as-recorded"* ]]
	samara replay --touch some "$dir/small"
	[ "$status" -eq 2 ]
	[[ $output == *"--touch is none, first or all"* ]]
	for n in x -1 "" 99999 1x; do
		samara replay --repeat "$n" "$dir/small"
		[ "$status" -eq 2 ]
		[[ $output == *"--repeat takes a number from 1 to 1000"* ]]
	done
	samara replay --differences many "$dir/small"
	[ "$status" -eq 2 ]
	[[ $output == *"--differences takes a number"* ]]
	samara replay --design linux-1.0 "$dir/small"
	[ "$status" -eq 2 ]
	[[ $output == *"design 'linux-1.0'"* ]]
	samara replay --design linux-6.18,tree=oak "$dir/small"
	[ "$status" -eq 2 ]
	[[ $output == *"design 'linux-6.18,tree=oak'"* ]]
	samara maps --at x "$dir/small"
	[ "$status" -eq 2 ]
	[[ $output == *"--at takes a number"* ]]
	samara maps --design oak "$dir/small"
	[ "$status" -eq 2 ]
	samara maps --fly "$dir/small"
	[ "$status" -eq 2 ]
}

@test "designs stand side by side with ratios" {
	samara replay --threads 1 --design linux-6.1,linux-6.15 --design linux-6.12,node-free=sheaf "$traces/perl.strace.xz"
	[ "$status" -eq 0 ]
	[[ $output == *linux-6.1*linux-6.15*linux-6.12,node-free=sheaf* ]]
	[ "$(grep -c 'differences unexplained' <<<"$output")" -eq 3 ]
}

@test "--design all runs every preset" {
	samara replay --threads 1 --design all "$traces/sort.strace.xz"
	[ "$status" -eq 0 ]
	[ "$(grep -c ': 0 differences unexplained' <<<"$output")" -ge 11 ]
	for preset in linux-5.19 linux-6.4-inline linux-6.18 samara; do
		[[ $output == *"$preset: 0 differences"* ]]
	done
}

@test "--repeat shows the spread" {
	samara replay --repeat 3 "$traces/sort.strace.xz"
	[ "$status" -eq 0 ]
	[[ $output == *"3 runs, "*" to "* ]]
}

@test "--touch faults pages in, all more than the first" {
	samara replay --threads 1 --touch first "$traces/sort.strace.xz"
	[ "$status" -eq 0 ]
	first=$(sed -n 's/^pages touched //p' <<<"$output" | sed 's/ (.*//; s/ //g')
	samara replay --threads 1 --touch all "$traces/sort.strace.xz"
	[ "$status" -eq 0 ]
	all=$(sed -n 's/^pages touched //p' <<<"$output" | sed 's/ (.*//; s/ //g')
	[ "$first" -gt 0 ] && [ "$all" -gt "$first" ]
	samara replay --touch none "$traces/sort.strace.xz"
	[[ $output != *"pages touched"* ]]
}

@test "faults of a recording are made" {
	cat >"$dir/faults" <<-END
		mmap(NULL, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000
		page_fault(0x7f0000000010, READ) = 0
		page_fault(0x7f0000001010, EXEC) = 0
	END
	samara replay --threads 1 "$dir/faults"
	[ "$status" -eq 1 ]
	[[ $output == *"$dir/faults:3: page_fault(0x7f0000001010, 0x4): expected 0"* ]]
	samara replay --threads 1 "$traces/wordcount-4.perftrace.xz"
	[ "$status" -eq 0 ]
	[[ $output == *"page_fault "* && $output == *"2830 calls and faults with inferred arguments"* ]]
}

@test "--json writes everything, - to stdout alone" {
	samara replay --threads 1 --design linux-5.19,linux-6.18 --json "$dir/a.json" "$traces/perl.strace.xz" "$traces/sort.strace.xz"
	[ "$status" -eq 0 ]
	python3 - "$dir/a.json" <<-'END'
		import json, sys
		j = json.load(open(sys.argv[1]))
		assert len(j["recordings"]) == 2
		r = j["recordings"][0]
		assert r["memory_calls"] == 96 and r["threads"] == "1" and r["bad_lines"] == 0
		assert [run["design"] for run in r["runs"]] == ["linux-5.19", "linux-6.18"]
		run = r["runs"][0]
		kinds = {k["call"]: k for k in run["kinds"]}
		assert kinds["mremap"]["count"] == 6 and kinds["mremap"]["median_ns"] > 0
		assert run["vmas"]["final"] == 36 and run["vmas"]["over_time"][-1][0] == 96
		assert run["spaces"][0]["program"] == "/usr/bin/perl" and "[heap]" in run["spaces"][0]["maps"]
		assert run["differences"]["unexplained"] == 0
		assert run["mmap_lock"]["write"]["acquired"] > 90
		sides, calls = [run["mmap_lock"][s] for s in ("read", "write")], run["mmap_lock"]["by_call"]
		assert sum(calls["mremap"]["hold_histogram"]) == calls["mremap"]["holds"] >= 6
		assert sum(s["hold_ns"] for s in sides) == sum(c["hold_ns"] for c in calls.values()) > 0
		assert sum(sum(s["hold_histogram"]) for s in sides) == sum(c["holds"] for c in calls.values())
	END
	run --separate-stderr timeout 60 "$SAMARA" replay --json - "$traces/sort.strace.xz"
	[ "$status" -eq 0 ]
	python3 -c 'import json, sys; json.load(sys.stdin)' <<<"$output"
	samara replay --json /nowhere/a.json "$traces/sort.strace.xz"
	[ "$status" -eq 2 ]
	[[ $output == *"/nowhere/a.json: No such file"* ]]
	samara replay --json /dev/full "$traces/sort.strace.xz"
	[ "$status" -eq 2 ]
	[[ $output == *"cannot be written"* ]]
}

@test "--html writes one page that needs nothing else" {
	cat >"$dir/<script>alert(1)<" <<-END
		100 execve("/bin/<img src=x onerror=alert(2)>&\"'", ["x"], []) = 0
		100 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</lib/<u&.so>, 0) = 0x7f0000000000
		100 mprotect(0x7f0000000000, 4096, PROT_NONE) = -1 EACCES (Permission denied)
	END
	cd "$dir"
	samara replay --threads 1 --design linux-5.19,linux-6.18 --html page.html "<script>alert(1)<" "$traces/perl.strace.xz"
	[ "$status" -eq 1 ]
	samara replay --html many.html "$traces/app-cycle-100.strace.xz"
	[ "$status" -eq 0 ]
	for page in page.html many.html; do
		python3 - $page <<-'END'
			import html.parser, re, sys
			text = open(sys.argv[1], encoding="utf-8").read()
			class Page(html.parser.HTMLParser):
			    stack, seen, rects, data = [], set(), 0, []
			    def handle_starttag(self, tag, attrs):
			        self.seen.add(tag)
			        self.rects += tag == "rect"
			        assert not any(k.startswith("on") or k in ("src", "href") for k, _ in attrs), attrs
			        if tag != "meta":
			            self.stack.append(tag)
			    def handle_startendtag(self, tag, attrs):
			        self.seen.add(tag)
			        self.rects += tag == "rect"
			    def handle_endtag(self, tag):
			        assert self.stack.pop() == tag, tag
			    def handle_data(self, data):
			        self.data.append(data)
			page = Page()
			page.feed(text)
			page.close()
			assert not page.stack, page.stack
			assert not page.seen & {"script", "img", "u", "link", "iframe", "object"}, page.seen
			assert {"svg", "table", "details", "pre", "rect"} <= page.seen
			assert not re.search(r"https?:|url\(|@import", text)
			data = "".join(page.data)
			if "page" in sys.argv[1]:
			    assert "<script>alert(1)<" in data and "<img src=x onerror=alert(2)>" in data
			    assert "/lib/<u&.so" in data
			    assert "expected" in data and "-1 EACCES" in data
			    assert "polyline" in page.seen and "VMAs of all processes" in data
			    assert data.count("linux-5.19") >= 4 and "perl.strace.xz" in data
			else:
			    assert page.rects > 100 and len(text) < 1 << 20
		END
	done
	run --separate-stderr timeout 60 "$SAMARA" replay --html - "$traces/sort.strace.xz"
	[ "$status" -eq 0 ]
	[[ ${lines[0]} == "<!DOCTYPE html>" && ${lines[-1]} == "</html>" ]]
	samara replay --html /dev/full "$traces/sort.strace.xz"
	[ "$status" -eq 2 ]
	[[ $output == *"samara replay: /dev/full: cannot be written"* ]]
}

@test "the counters of the object caches are told" {
	samara replay --design linux-6.18 --json "$dir/a.json" "$traces/wordcount-4.strace.xz"
	[ "$status" -eq 0 ]
	[[ $output == *"cache"*"allocated"*"vma_typesafe"*"maple_leaf"* ]]
	python3 - "$dir/a.json" <<-'END'
		import json, sys
		caches = {c["cache"]: c for c in json.load(open(sys.argv[1]))["recordings"][0]["runs"][0]["caches"]}
		assert caches["vma_typesafe"]["allocated"] >= 28 # at the peak
		assert caches["maple_leaf"]["borrowed"] > 0 and caches["maple_leaf"]["free_rcu"] > 0
	END
}

@test "--perfetto writes calls, waits and VMAs on a time line" {
	samara replay --design linux-6.1,linux-6.18 --perfetto "$dir/t.json" "$traces/wordcount-4.strace.xz"
	[ "$status" -eq 0 ]
	python3 - "$dir/t.json" <<-'END'
		import json, sys, collections
		events = json.load(open(sys.argv[1]))["traceEvents"]
		calls = [e for e in events if e["ph"] == "X" and e["cat"] == "call"]
		assert len(calls) == 2 * 1385
		assert len({e["tid"] for e in calls}) == 5
		assert sum(e["name"] == "mprotect" for e in calls) == 2 * 1343
		assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in calls)
		names = [e["args"]["name"] for e in events if e["ph"] == "M"]
		assert "linux-6.18 wordcount 9365" in names
		tracks = collections.defaultdict(list)
		for e in events:
		    if e["ph"] == "X":
		        tracks[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
		for track in tracks.values():  # slices of one track do not overlap
		    track.sort()
		    assert all(a[1] <= b[0] + 0.002 for a, b in zip(track, track[1:]))
	END
	run --separate-stderr timeout 60 "$SAMARA" replay --threads 1 --perfetto - "$traces/sort.strace.xz"
	[ "$status" -eq 0 ]
	python3 -c 'import json, sys; assert any(e["ph"] == "C" for e in json.load(sys.stdin)["traceEvents"])' <<<"$output"
	samara replay --json - --perfetto - "$traces/sort.strace.xz"
	[ "$status" -eq 2 ]
	samara replay --perfetto /nowhere/t.json "$traces/sort.strace.xz"
	[ "$status" -eq 2 ]
	[[ $output == *"/nowhere/t.json: No such file"* ]]
}

@test "maps after N calls" {
	small
	samara maps --at 2 "$dir/small"
	[ "$status" -eq 0 ]
	[[ ${lines[0]} == "# maps 100" ]]
	[[ ${lines[1]} == "7f0000000000-7f0000002000 rw-p 00000000 00:00 0"* ]]
	[ "${#lines[@]}" -eq 2 ]
	samara maps "$dir/small"
	[[ ${lines[1]} == "7f0000000000-7f0000001000 r--p 00000000 00:00 0"* ]]
	samara maps --at 0 "$dir/small"
	[ "$status" -eq 0 ]
}

@test "maps of one process of several" {
	samara maps --process 9443 "$traces/gcc.strace.xz"
	[ "$status" -eq 0 ]
	[[ $output == *"# /usr/bin/as"* && $output != *cc1* ]]
	samara maps --process 5 "$traces/gcc.strace.xz"
	[ "$status" -eq 2 ]
	[[ $output == *"no process 5"* ]]
}

@test "what maps prints is a maps block of a recording" {
	samara maps --at 10 "$traces/sort.strace.xz"
	[ "$status" -eq 0 ]
	before=$output
	{
		echo "$before"
		echo "9482 munmap(0x1000, 4096) = 0"
	} >"$dir/continued"
	samara maps "$dir/continued"
	[ "$status" -eq 0 ]
	diff <(grep -v '^#' <<<"$before" | awk '{print $1, $2}') <(grep -v '^#' <<<"$output" | awk '{print $1, $2}')
}

@test "files of strace -ff are one recording" {
	cat >"$dir/log.100" <<-END
		1796059199.100000 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000 <0.000010>
		1796059199.200000 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_THREAD) = 101 <0.000010>
		1796059199.400000 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000001000 <0.000010>
	END
	cat >"$dir/log.101" <<-END
		1796059199.300000 munmap(0x7f0000001000, 4096) = 0 <0.000010>
	END
	for threads in 1 as-recorded; do
		samara replay --threads $threads "$dir/log.100" "$dir/log.101"
		[ "$status" -eq 0 ]
		[[ $output == *"4 calls on memory of 4, 2 threads, 1 process"* ]]
		[[ $output == *"0 unexplained, 0 explained"* ]]
	done
}

@test "compressed recordings and the standard input" {
	xz -dc "$traces/sort.strace.xz" >"$dir/plain"
	gzip -k "$dir/plain"
	bzip2 -k "$dir/plain"
	zstd -q "$dir/plain"
	for file in plain plain.gz plain.bz2 plain.zst; do
		samara replay "$dir/$file"
		[ "$status" -eq 0 ]
		[[ $output == *"31 calls on memory"* ]]
	done
	run timeout 60 "$SAMARA" replay - <"$dir/plain"
	[ "$status" -eq 0 ]
}
