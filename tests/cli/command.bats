#!/usr/bin/env bats
# The command as a whole: help, refusals, and that nothing it says or writes is lost quietly.

setup() {
	dir=$BATS_TEST_TMPDIR
	trace=$SAMARA_SOURCE_DIR/traces/sort.strace.xz
}

samara() {
	run timeout 120 "$SAMARA" "$@"
}

@test "samara alone explains itself and fails" {
	samara
	[ "$status" -eq 2 ]
	[[ $output == *"usage: samara COMMAND"* && $output == *replay* && $output == *maps* ]]
}

@test "samara --help and --version succeed" {
	for word in --help -h help; do
		samara $word
		[ "$status" -eq 0 ]
		[[ $output == *"usage: samara COMMAND"* ]]
	done
	for command in replay maps record bench; do
		samara $command -h
		[ "$status" -eq 0 ]
		help=$output
		samara help $command
		[ "$status" -eq 0 ]
		[ "$output" = "$help" ]
		[[ $output == *"usage: samara $command"* ]]
	done
	samara --version
	[ "$status" -eq 0 ]
	[[ $output =~ ^samara\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
}

@test "an unknown command is refused" {
	samara fly
	[ "$status" -eq 2 ]
	[[ $output == "samara: no command 'fly'; samara --help lists them" ]]
	samara help fly
	[ "$status" -eq 2 ]
}

@test "a refusal is one line that begins with the command" {
	while read -r line; do
		# shellcheck disable=SC2086
		samara $line
		echo "$line: $output"
		[ "$status" -eq 2 ]
		[ "${#lines[@]}" -eq 1 ]
		[[ $output == "samara ${line%% *}: "* ]]
	done <<-END
		replay --fly $trace
		replay -x $trace
		replay --maps=3 $trace
		replay --design
		replay --design= $trace
		replay --design samara,tree=oak $trace
		replay --repeat 0 $trace
		replay --repeat +1 $trace
		replay --differences 1001 $trace
		replay $dir
		replay /nowhere
		maps --fly $trace
		maps --at 18446744073709551616 $trace
		maps --process 0 $trace
		record --fly
		record -o
		record -o $dir/x --pid 0
		record -o /nowhere/x --pid $$
		bench nosuch --fly
		bench floor --fly
		bench floor --fly 1
		bench floor --quick=1
		bench floor --runs 0
		bench floor --runs 1001
		bench floor --cpu -1
		bench floor -x
		bench floor --runs
		bench floor --runs=
		bench floor extra-word
		bench --quick floor
		bench all floor
		bench floor all
		bench floor floor
		bench list floor
		bench compare
		bench floor --cpu 4095
	END
}

@test "what cannot be printed makes the status 2, and is told" {
	for words in --help --version "replay $trace" "maps $trace" "replay --json - $trace" \
		"replay --perfetto - $trace" "bench list" "bench floor --quick --filter clock" \
		"bench floor --quick --filter clock --json -"; do
		for stream in /dev/full closed; do
			echo "$words to $stream"
			if [ $stream = closed ]; then
				# shellcheck disable=SC2086
				run bash -c 'exec "$0" "$@" 2>&1 >&-' "$SAMARA" $words
			else
				# shellcheck disable=SC2086
				run bash -c 'exec "$0" "$@" 2>&1 >/dev/full' "$SAMARA" $words
			fi
			echo "$output"
			[ "$status" -eq 2 ]
			[[ $output == *": the standard output cannot be written"* ]]
		done
	done
}

@test "with stdout closed, files hold what belongs into them" {
	run bash -c 'exec "$0" replay --json "$1" "$2" >&-' "$SAMARA" "$dir/a.json" "$trace"
	[ "$status" -eq 2 ]
	python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$dir/a.json"
}

@test "an output never takes the place of an input or of another output" {
	cp "$trace" "$dir/log.xz"
	ln "$dir/log.xz" "$dir/other"
	for out in "$dir/log.xz" "$dir/../$(basename "$dir")/log.xz" "$dir/other"; do
		samara replay --json "$out" "$dir/log.xz"
		[ "$status" -eq 2 ]
		[[ $output == *"is a recording: it would be lost" ]]
		cmp "$trace" "$dir/log.xz"
	done
	samara replay --json "$dir/a" --perfetto "$dir/a" "$trace"
	[ "$status" -eq 2 ]
	[[ $output == *"two outputs cannot both be $dir/a" ]]
	samara bench floor --quick --json "$dir/b" --csv "$dir/b"
	[ "$status" -eq 2 ]
	samara replay --json /dev/null --perfetto /dev/null "$trace"
	[ "$status" -eq 0 ]
}
