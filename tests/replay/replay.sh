#!/usr/bin/env bash
# replay.sh KIND SAMARA RECORDING GOLDEN REPEAT: one property of one recording (see CMakeLists.txt).
set -eu
kind=$1 samara=$2 recording=$3 golden=$4 repeat=$5
out=$(mktemp)
touched=$(mktemp)
trap 'rm -f "$out" "$touched"' EXIT

# The maps alone: from the first "# maps" on.
same_as_golden() {
	sed -n '/^# maps /,$p' "$out" | diff -u "$golden" - || { echo "the final maps differ"; exit 1; }
}

case $kind in
golden)
	"$samara" maps "$recording" >"$out"
	same_as_golden
	"$samara" replay --threads 1 --maps "$recording" >"$out"
	grep -q '^differences   0 unexplained, 0 explained' "$out" || { cat "$out"; exit 1; }
	same_as_golden
	;;
presets)
	# samara itself compares the final maps of the designs
	"$samara" replay --threads 1 --design all --maps "$recording" >"$out"
	same_as_golden
	;;
parallel)
	"$samara" replay --repeat "$repeat" --maps "$recording" >"$out"
	same_as_golden
	# touched memory merges less, but the same way on any number of threads
	"$samara" replay --threads 1 --touch first --maps "$recording" | sed -n '/^# maps /,$p' >"$touched"
	golden=$touched
	"$samara" replay --design linux-5.19,linux-6.4,linux-6.18 --touch first --maps "$recording" >"$out"
	same_as_golden
	;;
esac
