#!/usr/bin/env bash
# run.sh BUILD: installs the build into a temporary prefix, builds this project against it, and
# compares the hash that it computes with the installed program's.
set -euo pipefail
build=$(readlink -f "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" > "$work/log" 2>&1 || { tail -5 "$work/log"; exit 1; }
cmake -S "$here" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/log" 2>&1 &&
  cmake --build "$work/build" >> "$work/log" 2>&1 || { grep -A5 -i error "$work/log" | head -30; exit 1; }
model=$work/prefix/share/etalon/bench/demo/lenet.onnx
got=$("$work/build/consumer" "$model")
# The program draws the same noise: seed 1, stream 0.
expected=$("$work/prefix/bin/etalon" run "$model" --random 1 --batch 2 | sed -n 's/^logits .* //p')
[ -n "$got" ] && [ "$got" = "$expected" ] || { echo "the package computes '$got', the program '$expected'"; exit 1; }
# The installed program finds its runners and shapes without the checkout.
"$work/prefix/bin/etalon" frameworks > "$work/frameworks"
grep -q onnxruntime "$work/frameworks"
echo "installed package: $got, equal to the program's"
