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
	[[ $output == *"process 999999999: No such process"* ]]
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

# A program with four threads that map and unmap without a pause, its PID in $pid.
busy_program() {
	cat >"$dir/busy.py" <<-'END'
		import mmap, threading, time
		def work(n):
		    end = time.time() + 30
		    while time.time() < end:
		        maps = [mmap.mmap(-1, 4096 * (i + n)) for i in range(1, 8)]
		        for m in maps: m.close()
		for n in range(4): threading.Thread(target=work, args=(n,)).start()
		open("ready", "w").close()
	END
	cd "$dir"
	rm -f ready
	python3 busy.py &
	pid=$!
	until [ -e ready ]; do sleep 0.05; done
}

# Running or sleeping, not stopped.
goes_on() {
	local tries=100
	until grep -q '^State:.[RSD]' "/proc/$1/status"; do
		sleep 0.05
		[ $((tries--)) -gt 0 ] || return 1
	done
}

@test "a program that runs is recorded from its map on, no call missing" {
	can_trace || skip "strace cannot trace here"
	busy_program
	timeout -s INT 1 "$SAMARA" record -o "$dir/now" --pid $pid 2>/dev/null || true
	goes_on $pid
	kill $pid
	grep -q "^# maps $pid" "$dir/now"
	samara replay --threads 1 "$dir/now"
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"5 threads, 1 process"* ]]
	[[ $output == *"0 unexplained"* ]]
}

@test "a program goes on, however its recording fails" {
	busy_program
	PATH=/nowhere run "$SAMARA" record -o "$dir/now" --pid $pid
	[ "$status" -eq 2 ]
	goes_on $pid
	samara record -o /nowhere/now --pid $pid
	[ "$status" -eq 2 ]
	goes_on $pid
	mkdir "$dir/bin" # a tracer that ends at once, and one that is killed
	printf '#!/bin/sh\nexit 1\n' >"$dir/bin/strace"
	chmod +x "$dir/bin/strace"
	PATH=$dir/bin:$PATH samara record -o "$dir/now" --pid $pid
	[ "$status" -eq 1 ]
	goes_on $pid
	printf '#!/bin/sh\nkill -9 $$\n' >"$dir/bin/strace"
	PATH=$dir/bin:$PATH samara record -o "$dir/now" --pid $pid
	goes_on $pid
	kill $pid
}
