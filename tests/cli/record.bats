#!/usr/bin/env bats
# samara record as a user sees it: what it refuses, what it records, and that a replay takes it.

setup() {
	dir=$BATS_TEST_TMPDIR
}

samara() {
	run timeout 120 "$SAMARA" "$@"
}

@test "record refuses what it cannot do" {
	samara record
	[ "$status" -eq 2 ]
	[[ $output == *"usage: samara record"* ]]
	samara record true
	[ "$status" -eq 2 ]
	[[ $output == "samara record: -o FILE is missing" ]]
	samara record -o "$dir/now"
	[ "$status" -eq 2 ]
	[[ $output == *"either a program or --pid"* ]]
	samara record -o "$dir/now" --pid 1 true
	[ "$status" -eq 2 ]
	samara record -o "$dir/now" --pid x
	[ "$status" -eq 2 ]
	[[ $output == *"--pid takes a number"* ]]
	samara record -o "$dir/now" --pid 999999999
	[ "$status" -eq 2 ]
	[[ $output == *"/proc/999999999/maps: No such file"* ]]
	samara record -o /nowhere/now --pid $$
	[ "$status" -eq 2 ]
	samara record --fly
	[ "$status" -eq 2 ]
	PATH=/nowhere run "$SAMARA" record -o "$dir/now" true
	[ "$status" -eq 2 ]
	[[ $output == *"strace: No such file"* ]]
	samara record --help
	[ "$status" -eq 0 ]
}

# Whether strace is there and may trace.
can_trace() {
	command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null
}

@test "a recording made now is replayed" {
	can_trace || skip "strace cannot trace here"
	samara record -o "$dir/now" /bin/sh -c 'ls / | sort | wc -l; exit 7'
	[ "$status" -eq 7 ]
	samara replay --threads 1 "$dir/now"
	[ "$status" -eq 0 ]
	[[ $output == *"0 unexplained"* ]]
	samara replay "$dir/now"
	[ "$status" -eq 0 ]
}

@test "a file name is a file name, and an argument an argument" {
	can_trace || skip "strace cannot trace here"
	cd "$dir"
	samara record -o '|cat' true # strace by itself would start cat
	[ "$status" -eq 0 ]
	[ -s '|cat' ]
	samara record -o now -- /bin/sh -c 'exit 3'
	[ "$status" -eq 3 ]
	[ -s now ]
}

@test "a program that runs is recorded from its map on" {
	can_trace || skip "strace cannot trace here"
	python3 -c 'import mmap, time
for i in range(60): m = mmap.mmap(-1, 4096 * (i + 1)); time.sleep(0.05); m.close()' &
	pid=$!
	sleep 0.7
	timeout -s INT 1 "$SAMARA" record -o "$dir/now" --pid $pid 2>/dev/null || true
	kill $pid 2>/dev/null || true
	grep -q "^# maps $pid" "$dir/now"
	samara replay --threads 1 "$dir/now"
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"0 unexplained"* ]]
}
