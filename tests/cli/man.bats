#!/usr/bin/env bats
# The manual: every page is made, has no fault that mandoc sees, and knows every option of its command.

pages() {
	for source in "$SAMARA_SOURCE_DIR"/docs/man/*.scd; do
		echo "$SAMARA_BUILD_DIR/docs/$(basename "$source" .scd)"
	done
}

@test "every page is there" {
	command -v scdoc >/dev/null || skip "no scdoc here"
	for page in $(pages); do
		[ -s "$page" ]
	done
}

@test "mandoc finds nothing to complain about" {
	command -v scdoc >/dev/null || skip "no scdoc here"
	command -v mandoc >/dev/null || skip "no mandoc here"
	for page in $(pages); do
		run mandoc -T lint -W warning "$page"
		# scdoc's own preamble, and pages of others that are not installed here
		output=$(grep -vE 'missing date|referenced manual not found|skipping paragraph macro' <<<"$output" || true)
		[ -z "$output" ] || {
			echo "$output"
			false
		}
	done
}

@test "every option of a command is in its page" {
	for command in replay maps record; do
		page=$SAMARA_SOURCE_DIR/docs/man/samara-$command.1.scd
		for option in $("$SAMARA" "$command" --help | grep -o '^  --[a-z]*'); do
			grep -q -- "^\*$option\*\|^\*-o\*, \*$option\*" "$page" || {
				echo "$page: $option is missing"
				false
			}
		done
	done
}

@test "every option in a page is one of its command" {
	for command in replay maps record bench; do
		page=$SAMARA_SOURCE_DIR/docs/man/samara-$command.1.scd
		help=$("$SAMARA" "$command" --help)
		[ "$command" != bench ] || for name in $("$SAMARA" bench list | awk '{print $1}'); do
			help+=$("$SAMARA" bench "$name" --help)
		done
		for option in $(sed -n '/^# OPTIONS/,/^# [^O]/p' "$page" | grep -o '^\*-.*' | grep -o -- '\*--[a-z-]*\*' | tr -d '*'); do
			grep -q -- "$option\b" <<<"$help" || {
				echo "$page: $option is none"
				false
			}
		done
	done
}

@test "every option of a benchmark is in samara-bench(1)" {
	page=$SAMARA_SOURCE_DIR/docs/man/samara-bench.1.scd
	for name in $("$SAMARA" bench list | awk '{print $1}'); do
		for option in $("$SAMARA" bench "$name" --help | grep -o '^  --[a-z-]*'); do
			grep -q -- "\*$option\*" "$page" || {
				echo "$name: $option is missing"
				false
			}
		done
	done
}

@test "every command is in samara(1)" {
	for command in $("$SAMARA" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
		grep -q "samara-$command" "$SAMARA_SOURCE_DIR/docs/man/samara.1.scd"
	done
}

@test "the JSON of replay has the members that its page names, and no others" {
	cat >"$BATS_TEST_TMPDIR/log" <<-END
		100 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000
		100 mprotect(0x7f0000000000, 4096, PROT_NONE) = -1 EACCES (Permission denied)
	END
	run "$SAMARA" replay --threads 1 --json "$BATS_TEST_TMPDIR/a.json" "$BATS_TEST_TMPDIR/log"
	[ "$status" -eq 1 ]
	python3 - "$BATS_TEST_TMPDIR/a.json" "$SAMARA_SOURCE_DIR/docs/man/samara-replay.1.scd" <<-'END'
		import json, re, sys
		made = set()
		def walk(value, under):
		    if isinstance(value, dict):
		        for key, inner in value.items():
		            if under not in ("by_call", "differences"):  # keys that are values
		                made.add(key)
		            walk(inner, key)
		    elif isinstance(value, list):
		        for inner in value:
		            walk(inner, under)
		walk(json.load(open(sys.argv[1])), None)
		page = open(sys.argv[2]).read()
		named = set(re.findall(r'"([a-z]\w*)"', page[page.index("# JSON"):]))
		assert made == named, made ^ named
	END
}
