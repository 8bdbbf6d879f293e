#!/bin/sh
# Replays the seeds and the corpus of each fuzz target, and prints which share of the lines of each parser file
# (fuzz/parsers.txt) they reach. Fails below the number of per cent that is given.
#
#   fuzz/coverage.sh [PERCENT]     90 when nothing is said
#
# With LCOV=FILE it also writes which lines are reached, in the format of lcov, for genhtml and editors.
#
# Needs llvm-cov and llvm-profdata of the LLVM that rustc was built with (rustc -vV): `rustup component add
# llvm-tools`, or the Debian package llvm-VERSION. LLVM_BIN names their folder if they are elsewhere.
set -eu

least=${1:-90}
here=$(cd "$(dirname "$0")" && pwd)
version=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
tools=${LLVM_BIN:-}
for folder in "$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin" "/usr/lib/llvm-$version/bin"; do
    [ -n "$tools" ] || ! [ -x "$folder/llvm-cov" ] || tools=$folder
done
if [ -z "$tools" ]; then
    echo "fuzz: llvm-cov of LLVM $version is missing: rustup component add llvm-tools, or apt-get install llvm-$version" >&2
    exit 1
fi

target=${CARGO_TARGET_DIR:-$here/target}/coverage
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Build scripts and macros are instrumented too, and would leave profiles in the tree.
LLVM_PROFILE_FILE="$work/build-%p.profraw" RUSTFLAGS="-C instrument-coverage --cfg fuzzing" CARGO_TARGET_DIR="$target" \
    cargo build --quiet --manifest-path "$here/Cargo.toml" --bins
objects=
for source in "$here"/fuzz_targets/*.rs; do
    name=$(basename "$source" .rs)
    set --
    for inputs in "$here/seeds/$name" "$here/corpus/$name"; do
        [ ! -d "$inputs" ] || set -- "$@" "$inputs"
    done
    # The IDL of the repository is as good as seeds.
    [ "$name" != idl ] || set -- "$@" "$here/../idl" "$here/../tests/idl" "$here/../crates/idl-rust/tests/corpus"
    # Without runs of its own the target executes each input once.
    LLVM_PROFILE_FILE="$work/$name.profraw" "$target/debug/$name" -runs=0 "$@" >"$work/$name.log" 2>&1 || {
        cat "$work/$name.log"
        echo "fuzz: $name fails with an input of its seeds or corpus" >&2
        exit 1
    }
    objects="$objects --object $target/debug/$name"
done
rm -f "$work"/build-*.profraw
"$tools/llvm-profdata" merge --sparse "$work"/*.profraw -o "$work/all.profdata"
# Each object is an argument of its own.
# shellcheck disable=SC2086
"$tools/llvm-cov" export --format=lcov --instr-profile "$work/all.profdata" $objects >"$work/lcov"
[ -z "${LCOV:-}" ] || cp "$work/lcov" "$LCOV"
awk -v least="$least" -v here="$(dirname "$here")/" '
    FILENAME ~ /parsers.txt$/ { if ($0 !~ /^#/ && NF) wanted[$1] = 1; next }
    /^SF:/ { file = substr($0, 4); sub(here, "", file); next }
    /^DA:/ && file in wanted {
        split(substr($0, 4), line, ",")
        key = file SUBSEP line[1]
        if (!(key in hit)) { lines[file]++; hit[key] = 0 }
        if (line[2] > 0 && !hit[key]) { hit[key] = 1; reached[file]++ }
    }
    END {
        for (file in wanted) {
            if (!lines[file]) { printf "  %-52s is not in any target\n", file; low = 1; continue }
            all += lines[file]; got += reached[file]
            share = 100 * reached[file] / lines[file]
            printf "  %-52s %5d lines %6.1f %%\n", file, lines[file], share | "sort"
            if (share < least) low = 1
        }
        close("sort")
        printf "fuzz: %.1f %% of %d lines of parser files are reached\n", 100 * got / all, all
        if (low) { printf "fuzz: files below %s %%\n", least; exit 1 }
    }' "$here/parsers.txt" "$work/lcov"
