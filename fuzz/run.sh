#!/bin/sh
# Runs the fuzz targets for a bounded time each, from the seeds that are checked in; fails on the first crash.
#
#   fuzz/run.sh [--until N] [--idle] [SECONDS [TARGET...]]     60 seconds and all targets when nothing is said
#
# --until N runs only targets that have fewer than N executions in the table, again and again until none has. The runs
# take turns with inputs of at most 64 octets, of 256, and of what the target takes: short ones run several times as fast.
# --idle takes only the processor time that no other process wants.
#
# RUNS=N ends a run after N executions. LENGTH=N limits the octets of an input. SANITIZER=none builds without the address
# sanitizer: that executes several times as fast, and most parsers have no unsafe code. PROGRAMS=FOLDER takes programs
# that were built before. TIMEOUT=S is how many seconds one input may take, by default 10.
#
# Each run adds a row for each target to fuzz/executions.tsv: target, date, seconds, executions. The totals are printed.
# SIGTERM ends the current run, and its row is added.
#
# Needs a nightly tool chain (the sanitizers' flags are unstable) and installs cargo-fuzz when it is missing. What a
# crash leaves is in fuzz/artifacts/TARGET; fuzz/corpus grows from run to run.
set -eu

number() {
    case $1 in
    '' | *[!0-9]*)
        echo "fuzz: '$1' is no number of $2" >&2
        exit 2
        ;;
    esac
}
until=
idle=
while [ $# -gt 0 ]; do
    case $1 in
    --until)
        until=${2:-}
        number "$until" executions
        shift 2
        ;;
    --idle)
        idle=1
        shift
        ;;
    *) break ;;
    esac
done
seconds=${1:-60}
number "$seconds" seconds
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- cdr lent any dynamic values giop messages ior csi url miop udp segment handshake memory area session filter content federation binding names log admin trace idl ifr schedule

here=$(cd "$(dirname "$0")" && pwd)
# Threads of isorb touch their stack before they use it, which they must find where the processor has it and not on the sanitizer's heap.
export ASAN_OPTIONS="detect_odr_violation=0:detect_stack_use_after_return=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
if [ -z "${PROGRAMS:-}" ]; then
    if ! cargo +nightly --version >/dev/null 2>&1; then
        echo "fuzz: no nightly tool chain: run 'rustup toolchain install nightly --profile minimal'" >&2
        exit 1
    fi
    if ! cargo fuzz --version >/dev/null 2>&1; then
        echo "fuzz: installing cargo-fuzz"
        cargo install cargo-fuzz --locked
    fi
    # cargo-fuzz builds into fuzz/target whatever the caller uses elsewhere.
    unset CARGO_TARGET_DIR
    export RUSTC_WRAPPER="$here/rustc"
    host=$(rustc +nightly -vV | sed -n 's/^host: //p')
    for target in "$@"; do
        cargo +nightly fuzz build --fuzz-dir "$here" --sanitizer "${SANITIZER:-address}" --target "$host" "$target"
    done
    PROGRAMS="$here/target/$host/release"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
running=
stopped=
trap 'stopped=1; [ -z "$running" ] || kill -INT "$running"' TERM INT
table="$here/executions.tsv"
[ -f "$table" ] || printf 'target\tdate\tseconds\texecutions\n' >"$table"

# start PROGRAM ARGUMENT...: becomes the program. Where the kernel shares the processor among sessions, idle processes
# give way only to those of their own session, so that they get one that seldom has its turn.
start() {
    [ -n "$idle" ] || exec "$@"
    exec setsid chrt --idle 0 nice -n 19 sh -c '{ echo 19 >"/proc/$$/autogroup"; } 2>/dev/null; exec "$@"' start "$@"
}

# run TARGET LENGTH: one run, and its row.
run() {
    echo "fuzz: $1, $seconds s"
    mkdir -p "$here/corpus/$1" "$here/artifacts/$1"
    # Each octet of these is a step that makes system calls; what a long input reaches, a short one does.
    case $1 in
    handshake | names | udp) most=256 ;;
    federation) most=1024 ;;
    *) most=4096 ;;
    esac
    [ -z "$2" ] || [ "$2" -gt "$most" ] || most=$2
    begin=$(date +%s)
    start "$PROGRAMS/$1" "$here/corpus/$1" "$here/seeds/$1" -artifact_prefix="$here/artifacts/$1/" -runs="${RUNS:--1}" \
        -max_total_time="$seconds" -timeout="${TIMEOUT:-10}" -rss_limit_mb=1024 -max_len="$most" -verbosity=0 \
        -print_final_stats=1 >"$log" 2>&1 &
    running=$!
    # A signal ends the first wait.
    ended=0
    wait "$running" || ended=$?
    [ -z "$stopped" ] || [ "$ended" -le 128 ] || wait "$running" || ended=$?
    running=
    # libFuzzer ends with 72 when it is interrupted.
    if [ "$ended" -ne 0 ] && { [ -z "$stopped" ] || [ "$ended" -ne 72 ]; }; then
        cat "$log"
        echo "fuzz: $1 failed; the input is in fuzz/artifacts/$1" >&2
        exit 1
    fi
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    if [ -z "$executions" ]; then
        cat "$log"
        echo "fuzz: $1 did not say how many executions it made" >&2
        exit 1
    fi
    echo "fuzz: $1, $executions executions"
    printf '%s\t%s\t%s\t%s\n' "$1" "$(date -u +%F)" "$(($(date +%s) - begin))" "$executions" >>"$table"
}

# Those of TARGET... that have too few executions.
wanting() {
    for target in "$@"; do
        awk -F '\t' -v target="$target" -v until="$until" \
            '$1 == target { sum += $4 } END { if (sum < until) print target }' "$table"
    done
}

turn=0
while [ -z "$stopped" ]; do
    length=${LENGTH:-}
    if [ -n "$until" ]; then
        # Names of targets have no spaces.
        # shellcheck disable=SC2046
        set -- $(wanting "$@")
        [ $# -gt 0 ] || break
        case $((turn % 3)) in
        0) length=${length:-64} ;;
        1) length=${length:-256} ;;
        esac
    fi
    for target in "$@"; do
        [ -n "$stopped" ] || run "$target" "$length"
    done
    [ -n "$until" ] || break
    turn=$((turn + 1))
done
echo "fuzz: executions of all runs, by target:"
awk -F '\t' 'NR > 1 { sum[$1] += $4; all += $4 } END { for (t in sum) print "  " t, sum[t]; print "  all", all }' "$table" | sort
echo "fuzz: no crash"
