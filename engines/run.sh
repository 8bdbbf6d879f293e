#!/usr/bin/env bash
# Builds and tests the engines: crates that need what outgrows one machine, each a workspace of its own.
#
#   engines/run.sh [--compile] [ENGINE...]     all of them if none is named
#
# As root it installs the Debian packages that an engine names in its file `packages`. Otherwise it
# skips an engine without its packages, with a line that names them.
# --compile installs nothing and runs nothing: it compiles what a later run needs, as far as it can.
set -u
cd "$(dirname "$0")" || exit 2
compile=
if [ "${1:-}" = --compile ]; then compile=yes; shift; fi
[ $# -gt 0 ] || set -- */

failed=0
# All engines share what they build.
target=${CARGO_TARGET_DIR:-$(cd .. && pwd)/target}/engines
for engine in "$@"; do
  engine=${engine%/}
  if [ ! -f "$engine/Cargo.toml" ]; then
    echo "engines: there is no engine '$engine'; there are: $(echo */ | tr -d /)" >&2
    exit 2
  fi
  printf '\n=== engine %s\n' "$engine"
  missing=()
  while read -r package; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done < <(grep -v '^#' "$engine/packages")
  if [ ${#missing[@]} -gt 0 ]; then
    [ -z "$compile" ] || continue
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
      echo "SKIPPED: the engine $engine needs ${missing[*]}; install these packages, or run it as root"
      echo "0 passed, 0 failed, 1 skipped"
      continue
    fi
    ../tools/apt-install "${missing[@]}" || { failed=1; continue; }
  fi
  (
    set -o pipefail
    cd "$engine" || exit 2
    export CARGO_TARGET_DIR=$target RUSTDOCFLAGS="-D warnings"
    if [ -n "$compile" ]; then
      cargo clippy -q --locked --all-targets -- -D warnings && cargo doc -q --locked --no-deps &&
        cargo build -q --locked --all-targets
      exit
    fi
    cargo fmt --check && cargo clippy -q --locked --all-targets -- -D warnings &&
      ../../tools/check-licences && cargo doc -q --locked --no-deps &&
      if [ -x test ]; then ./test; else
        cargo test -q --locked --no-fail-fast -- --show-output 2>&1 | ../../tools/show-skipped
      fi
  ) || { failed=1; echo "engines: $engine FAILED" >&2; }
done
exit "$failed"
