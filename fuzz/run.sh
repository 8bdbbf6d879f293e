#!/bin/sh
# Runs the fuzz targets for a bounded time each, from the seeds that are checked in; fails on the first crash.
#
#   fuzz/run.sh [SECONDS [TARGET...]]     60 seconds and all targets when nothing is said
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
[ $# -gt 0 ] || set -- cdr memory giop ior miop segment greeting udp url idl

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
for target in "$@"; do
    echo "fuzz: $target, $seconds s"
    mkdir -p "$here/corpus/$target" "$here/artifacts/$target"
    cargo +nightly fuzz run --fuzz-dir "$here" "$target" "$here/corpus/$target" "$here/seeds/$target" -- \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=4096 -verbosity=0 -print_final_stats=1
done
echo "fuzz: no crash"
