#!/usr/bin/env bats
# samara bench as a user sees it: options, files, messages. No figure is asserted on.

setup() {
	dir=$BATS_TEST_TMPDIR
	json=$dir/a.json
}

bench() {
	run timeout 120 "$SAMARA" bench "$@"
}

@test "bench alone explains itself and fails" {
	bench
	[ "$status" -eq 2 ]
	[[ $output == *"usage: samara bench NAME"* ]]
}

@test "bench list names every benchmark once" {
	bench list
	[ "$status" -eq 0 ]
	[ "$(awk '{print $1}' <<<"$output" | sort | uniq -d)" = "" ]
	[[ $output == *"floor"* ]]
}

@test "every benchmark runs with --quick and reports rows" {
	bench list
	for name in $(awk '{print $1}' <<<"$output"); do
		echo "# $name" >&3
		run timeout 60 "$SAMARA" bench "$name" --quick --json "$dir/$name.json"
		echo "$output"
		[ "$status" -eq 0 ]
		grep -q '"case":' "$dir/$name.json"
	done
}

@test "nothing is left behind: files, processes" {
	TMPDIR=$dir bench floor --quick
	[ "$status" -eq 0 ]
	[ -z "$(ls -A "$dir")" ]
	[ -z "$(pgrep -P $$ samara-peer || true)" ]
}

@test "--filter takes cases, --json and --csv write them" {
	bench floor --quick --filter zero --json "$json" --csv "$dir/a.csv"
	[ "$status" -eq 0 ]
	[ "$(grep -c '"case":' "$json")" -eq 2 ]
	[ "$(wc -l <"$dir/a.csv")" -eq 3 ]
	[[ $(head -n 1 "$dir/a.csv") == benchmark,case,ours,peer,theirs,unit,ratio,* ]]
}

@test "--json - writes JSON and nothing else to stdout" {
	"$SAMARA" bench floor --quick --filter clock --json - 2>/dev/null >"$json"
	[ "$(head -c 1 "$json")" = "{" ]
	[ "$(tail -n 1 "$json")" = "}" ]
}

@test "an unwritable file is an error, before anything is measured" {
	for out in "--json /nowhere/a" "--csv $dir"; do
		# shellcheck disable=SC2086
		bench floor --quick --filter clock $out
		[ "$status" -eq 2 ]
		[ "${#lines[@]}" -eq 1 ]
		[[ $output == *"${out#* }: "* ]]
	done
}

@test "--filter that takes no case is an error; mmap-stress filters by row" {
	bench floor --quick --filter nosuch
	[ "$status" -eq 2 ]
	[[ $output == *"what --filter asks for: 'nosuch'" ]]
	bench mmap-stress --quick --filter both/delay --csv "$dir/a.csv"
	[ "$status" -eq 0 ]
	[ "$(grep -c '^mmap-stress,both/delay' "$dir/a.csv")" -eq 1 ]
	[ "$(wc -l <"$dir/a.csv")" -eq 2 ]
}

@test "app-cycle filters by row; what it cannot read is told once" {
	bench app-cycle --quick --filter recording/linux-6.1 --designs linux-6.1:samara --csv "$dir/a.csv"
	[ "$status" -eq 0 ]
	[ "$(wc -l <"$dir/a.csv")" -eq 2 ]
	grep -q '^app-cycle,recording/linux-6.1,' "$dir/a.csv"
	bench app-cycle --quick --filter recording --recording /nowhere
	[ "$status" -eq 2 ]
	[[ $output == *"samara bench app-cycle: /nowhere: No such file or directory"* ]]
	bench tree --quick --ranges 5
	[ "$status" -eq 2 ]
	[[ $output == *"--ranges takes 100"* ]]
}

@test "word-count takes any file name, and refuses what is no text" {
	seq 2000 >"$dir/a text.txt"
	: >"$dir/empty"
	bench word-count --quick --text "$dir/a text.txt"
	[ "$status" -eq 0 ]
	bench word-count --quick --text "$dir"
	[ "$status" -eq 2 ]
	[[ $output == *"$dir: not a regular file"* ]]
	bench word-count --quick --text "$dir/empty"
	[[ $output == *"$dir/empty: nothing to count"* ]]
	bench word-count --quick --bytes 99999999999999999
	[ "$status" -eq 2 ]
	[[ $output == *"--bytes takes 1 to"* ]]
	TMPDIR=/nowhere bench word-count --quick
	[ "$status" -eq 2 ]
	[[ $output == *"TMPDIR: /nowhere/samara-"*": No such file"* ]]
}

@test "--markdown prints a Markdown table" {
	bench floor --quick --filter clock --markdown
	[ "$status" -eq 0 ]
	[[ $output == *"| case |"* ]]
}

@test "compare shows old, change and new" {
	"$SAMARA" bench floor --quick --json "$json" >/dev/null
	bench compare "$json" "$json"
	[ "$status" -eq 0 ]
	[[ $output == *"rows compared, 0 only in the old file, 0 only in the new"* ]]
	[[ $output == *"+0.0%"* ]]
	bench compare "$json" "$json" --csv "$dir/c.csv"
	[ "$status" -eq 0 ]
	[[ $(head -n 1 "$dir/c.csv") == benchmark,case,peer,old,change,new,unit,* ]]
	[ "$(wc -l <"$dir/c.csv")" -gt 5 ]
	bench compare "$json" "$json" --csv "$json"
	[ "$status" -eq 2 ]
	grep -q '"rows"' "$json"
	bench compare "$json" "$json" --csv /nowhere/c.csv
	[ "$status" -eq 2 ]
	[[ $output == *"/nowhere/c.csv: No such file"* ]]
}

@test "compare refuses what does not match, with a reason" {
	"$SAMARA" bench floor --quick --json "$json" >/dev/null
	sed 's/"benchmark": "floor"/"benchmark": "roof"/' "$json" >"$dir/b.json"
	bench compare "$json" "$dir/b.json"
	[ "$status" -eq 2 ]
	[[ $output == *"floor"* && $output == *"roof"* ]]
	head -c 300 "$json" >"$dir/c.json"
	bench compare "$json" "$dir/c.json"
	[ "$status" -eq 2 ]
	[[ $output == *"c.json: line"* ]]
	bench compare "$json" /nowhere
	[ "$status" -eq 2 ]
	[[ $output == "samara bench compare: /nowhere: No such file or directory" ]]
	bench compare "$json" "$dir"
	[[ $output == "samara bench compare: $dir: Is a directory" ]]
	bench compare "$json"
	[ "$status" -eq 2 ]
}

# Starts a run that lasts, and waits until it listens to interrupts.
start_long_run() {
	"$SAMARA" bench floor --runs 1000 >"$dir/out" 2>&1 3>&- &
	pid=$!
	for _ in $(seq 600); do
		caught=$(awk '/^SigCgt/ { print $2 }' "/proc/$pid/status")
		((16#${caught: -1} & 2)) && return
		sleep 0.1
	done
	kill -9 "$pid"
	return 1
}

@test "an interrupt ends a run in order, also when it comes to process and group" {
	start_long_run
	kill -INT "$pid"
	kill -INT "$pid"
	wait "$pid" || status=$?
	[ "$status" -eq 2 ]
	grep -q stopped "$dir/out"
}
