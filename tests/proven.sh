#!/usr/bin/env bash
# Prints one table of what was proven about bits: the hashes on record (tests/golden) against every
# build of this checkout that is there, and under emulated processors.
#
#   ./etalon test --proven            the builds that are there; a line names each other one
#   ./etalon test --proven --build    brings each to the sources first (an hour on 2 cores)
#   ./etalon test --proven --quick    one or two thread counts and instruction sets a build
#
# Each figure is 'equal / compared'. ops: cases x contracts x (thread counts, instruction sets) of
# tests/op_cases; networks: whole networks, likewise; batches: row i of a batch against the row
# alone, ops and networks. Exit code 1 when one differs or nothing could be compared.
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
build=no quick=no
for word in "$@"; do
  case $word in
    --build) build=yes ;;
    --quick) quick=yes ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done

if [ $quick = yes ]; then
  cases='golden: every case*,golden: small networks have*,golden: the demo network has*,golden: a network*,conformance: a row of a batch*'
else
  cases='golden: threads*,golden: small networks at*,golden: the demo network at*,golden: a network*,conformance: a row of a batch*'
fi

scratch=$(mktemp -d "${TMPDIR:-/tmp}/etalon-proven.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
line() { printf '%-46s %15s %15s %15s %7s\n' "$@"; }

# row 'WHAT' BINARY 'HOW TO MAKE IT' [EMULATOR...]: a process of its own, as many at a time as there
# are processors. Prints its lines when it ends, and leaves a word in 'bad' or 'compared'.
rows=0
row() {
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  rows=$((rows + 1))
  { run_row $rows "$@" > "$scratch/row$rows" 2>&1; cat "$scratch/row$rows"; } &
}
run_row() {
  local log=$scratch/log$1 what=$2 binary=$3 how=$4 began=$SECONDS code=0 figures=()
  shift 4
  if [ $# -gt 0 ] && ! command -v "$1" > /dev/null; then
    printf '%-46s skipped: no %s (Debian package qemu-user)\n' "$what" "$1"
    return
  fi
  if [ ! -x "$binary" ]; then
    printf '%-46s skipped: not built (--build: %s)\n' "$what" "$how"
    return
  fi
  "$@" "$binary" --no-version -tc="$cases" > "$log" 2>&1 || code=$?
  for kind in ops networks batches; do
    figures+=("$(awk -v k=$kind '$1 == "proven:" && $2 == k { e += $3; n += $5 } END { if (n) printf "%d/%d", e, n; else print "-" }' "$log")")
  done
  line "$what" "${figures[@]}" "$((SECONDS - began)) s"
  ! grep -q '^proven: ops' "$log" || echo "$what" >> "$scratch/compared"
  if [ $code != 0 ] || ! grep -q '^proven: ops' "$log"; then
    echo "$what" >> "$scratch/bad"
    sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -E -A4 'ERROR|FATAL|Illegal' | head -12
    echo "  exit code $code"
  fi
}
# Makes one build after the other, since a compiler takes all processors; one that is there is
# brought up to the sources.
make_build() { # make_build 'HOW'
  [ $build = no ] || eval "$1" > "$scratch/build" 2>&1 || {
    echo "not made: $1: $(grep -m1 -E 'error:|Error|FAILED' "$scratch/build")"
    echo "$1" >> "$scratch/bad"
  }
}

version() { "$1" -dumpfullversion 2> /dev/null || echo '?'; }
made() { echo "cmake --preset $1; cmake --build --preset $1 --target etalon_tests"; }

# An emulator that let wider instructions pass would prove nothing.
sse2=(qemu-x86_64 -cpu qemu64,-pni)
if [ "$(uname -m)" = x86_64 ] && command -v qemu-x86_64 > /dev/null && command -v g++ > /dev/null; then
  printf '#include <immintrin.h>\nint main() { volatile float x = 1; return static_cast<int>(_mm256_cvtss_f32(_mm256_set1_ps(x))); }\n' > "$scratch/avx.cpp"
  g++ -O1 -mavx "$scratch/avx.cpp" -o "$scratch/avx"
  if ! bash -c '"$@"; [ $? = 132 ]' -- "${sse2[@]}" "$scratch/avx" 2> /dev/null; then
    echo "proven.sh: the emulated processor without AVX ran an AVX instruction; its row would prove nothing"
    exit 1
  fi
fi

if [ $quick = yes ]; then echo 'threads 1 to 3; the instruction set of the machine, ops also on SSE2; batches 1 3 64'; else echo 'threads 1 2 3 7; instruction sets sse2 and up to the machine'"'"'s own; batches 1 3 64'; fi
line 'build' 'ops' 'networks' 'batches' 'time'
for preset in clang plain debug threads aarch64; do
  make_build "$(made $preset)"
done
row 'GCC, on a processor with SSE2 alone (qemu)' build/release/bin/etalon_tests './etalon test golden' "${sse2[@]}"
row '64-bit ARM (qemu)' build/aarch64/bin/etalon_tests "$(made aarch64)" qemu-aarch64 -L /usr/aarch64-linux-gnu
row 'debug: address and undefined-behaviour checks' build/debug/bin/etalon_tests "$(made debug)"
row 'threads: data races' build/threads/bin/etalon_tests "$(made threads)"
row "GCC $(version g++), not optimised" build/plain/bin/etalon_tests "$(made plain)"
row "clang 19, optimised" build/clang/bin/etalon_tests "$(made clang)"
row "GCC $(version g++), optimised" build/release/bin/etalon_tests './etalon test golden'
wait
[ ! -e "$scratch/bad" ] && [ -e "$scratch/compared" ]
