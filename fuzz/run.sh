#!/bin/sh
# Runs the fuzz targets for a bounded time each, from the seeds that are checked in; fails on the first crash.
#
#   fuzz/run.sh [SECONDS [TARGET...]]     60 seconds and all targets when nothing is said
#
# RUNS=N ends a target after N executions. SANITIZER=none builds without the address sanitizer: that executes several
# times as fast, and most parsers have no unsafe code.
#
# Each run adds a row for each target to fuzz/executions.tsv: target, date, seconds, executions. The totals are printed.
#
# Needs a nightly tool chain (the sanitizers' flags are unstable) and installs cargo-fuzz when it is missing. What a
# crash leaves is in fuzz/artifacts/TARGET; fuzz/corpus grows from run to run.
set -eu

seconds=${1:-60}
case $seconds in
'' | *[!0-9]*)
    echo "fuzz: '$seconds' is no number of seconds" >&2
    exit 2
    ;;
esac
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- cdr lent any dynamic values giop messages ior csi url miop udp segment handshake memory area session filter content federation binding names log admin trace idl ifr schedule

here=$(cd "$(dirname "$0")" && pwd)
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "fuzz: no nightly tool chain: run 'rustup toolchain install nightly --profile minimal'" >&2
    exit 1
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "fuzz: installing cargo-fuzz"
    cargo install cargo-fuzz --locked
fi

# Threads of isorb touch their stack before they use it, which they must find where the processor has it and not on the sanitizer's heap.
export ASAN_OPTIONS="detect_stack_use_after_return=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
# cargo-fuzz builds into fuzz/target whatever the caller uses elsewhere.
unset CARGO_TARGET_DIR
log=$(mktemp)
trap 'rm -f "$log"' EXIT
table="$here/executions.tsv"
[ -f "$table" ] || printf 'target\tdate\tseconds\texecutions\n' >"$table"
for target in "$@"; do
    echo "fuzz: $target, $seconds s"
    mkdir -p "$here/corpus/$target" "$here/artifacts/$target"
    # Each octet of these is a step that makes system calls; what a long input reaches, a short one does.
    case $target in
    handshake | names) most=256 ;;
    federation | udp) most=1024 ;;
    *) most=4096 ;;
    esac
    if ! cargo +nightly fuzz run --fuzz-dir "$here" --sanitizer "${SANITIZER:-address}" "$target" \
        "$here/corpus/$target" "$here/seeds/$target" -- -runs="${RUNS:--1}" \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len="$most" -verbosity=0 -print_final_stats=1 \
        >"$log" 2>&1; then
        cat "$log"
        echo "fuzz: $target failed; the input is in fuzz/artifacts/$target" >&2
        exit 1
    fi
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    if [ -z "$executions" ]; then
        cat "$log"
        echo "fuzz: $target did not say how many executions it made" >&2
        exit 1
    fi
    echo "fuzz: $target, $executions executions"
    printf '%s\t%s\t%s\t%s\n' "$target" "$(date -u +%F)" "$seconds" "$executions" >>"$table"
done
echo "fuzz: executions of all runs, by target:"
awk -F '\t' 'NR > 1 { sum[$1] += $4; all += $4 } END { for (t in sum) print "  " t, sum[t]; print "  all", all }' "$table" | sort
echo "fuzz: no crash"
