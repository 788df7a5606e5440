#!/usr/bin/env bash
# run.sh TARGET CORPUS SECONDS: every input of the corpus, then inventions beginning from it, the same
# ones in every run (SAMARA_FUZZ_SEED=0 for others). An input that fails is printed as base64.
set -eu
target=$1 corpus=$2 seconds=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/found"
"$target" -runs=0 -timeout=20 "$corpus" 2>"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$target" -seed="${SAMARA_FUZZ_SEED:-1}" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=1024 -max_len=8192 -close_fd_mask=1 \
	-artifact_prefix="$scratch/bad-" "$scratch/found" "$corpus" 2>"$scratch/log" || {
	tail -n 60 "$scratch/log"
	for input in "$scratch"/bad-*; do
		echo "$input:"
		base64 "$input"
	done
	exit 1
}
grep -E 'stat::number_of_executed_units|Done ' "$scratch/log"
