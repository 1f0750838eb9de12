#!/usr/bin/env bash
# Evidence from a machine with a GPU, made without a network.
#   bench/gpu_evidence.sh pack FOLDER      where the packages are: copies the four header-only libraries
#                                          that the build needs (fmt, xxHash, doctest, nlohmann-json),
#                                          each with its licence, into FOLDER (2.5 MB)
#   bench/gpu_evidence.sh FOLDER OUT.json  on the GPU machine, with its own nvcc (12.4 or newer), CMake and
#                                          ninja: builds the engine, its tests and the CUDA kernels, runs
#                                          the GPU's conformance and timing, writes one JSON record
# cuBLAS and cuDNN are opened at run time: those that Python packages brought are found too.
# Exit code: 0 all hashes equal the CPU's, 1 one does not, 4 no compiler or no device.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
usage() { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }

if [ "${1:-}" = pack ]; then
  folder=${2:?$(usage)}
  mkdir -p "$folder/licences"
  for header in fmt xxhash.h doctest nlohmann; do cp -r "/usr/include/$header" "$folder/"; done
  for package in libfmt-dev libxxhash-dev doctest-dev nlohmann-json3-dev; do
    cp "/usr/share/doc/$package/copyright" "$folder/licences/$package"
  done
  exit 0
fi

headers=$(readlink -f "${1:-}") && [ -e "$headers/fmt/format.h" ] || usage
out=${2:-}
[ -n "$out" ] || usage
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2> /dev/null) ||
  { echo "gpu_evidence.sh: no nvcc on this machine; install CUDA 12.4 or newer" >&2; exit 4; }
build=$root/build/gpu
mkdir -p "$root/build"
started=$SECONDS
generator=(); command -v ninja > /dev/null && generator=(-G Ninja)
defines=()
for header in fmt/format.h xxhash.h doctest/doctest.h nlohmann/json.hpp; do
  defines+=("-DETALON_PATH_$header=$headers")
done
cmake -S "$root" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DETALON_ENGINE_ONLY=ON \
  -DETALON_ONEDNN=OFF -DETALON_CUDA=ON -DETALON_WERROR=OFF -DCMAKE_CUDA_COMPILER="$nvcc" \
  -DCMAKE_CUDA_ARCHITECTURES=90a-real "${defines[@]}" > "$build.log" 2>&1 ||
  { tail -n 20 "$build.log" >&2; exit 4; }
cmake --build "$build" --target gpu_evidence -j "$(nproc)" >> "$build.log" 2>&1 ||
  { grep -E -A8 'error|FAILED' "$build.log" | head -60 >&2; exit 4; }
echo "built in $((SECONDS - started)) s" >&2

# Where pip puts NVIDIA's libraries.
for lib in $(python3 - << 'END' 2> /dev/null || true
import glob, site, sysconfig
for base in {sysconfig.get_paths()["purelib"], *site.getsitepackages()}:
    print(*glob.glob(base + "/nvidia/*/lib"))
END
); do LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; done
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
commit=$(git -C "$root" rev-parse --short HEAD 2> /dev/null || echo unknown)
code=0
"$build/bin/gpu_evidence" "$commit" > "$out" || code=$?
if [ $code -le 1 ] && command -v compute-sanitizer > /dev/null; then
  # Memory and races of the tiled kernels and the pool; a finding is an exit code of its own.
  for tool in memcheck racecheck; do
    compute-sanitizer --tool $tool --error-exitcode 9 "$build/bin/gpu_evidence" --sanitize > "$build.$tool.log" 2>&1 &&
      echo "compute-sanitizer $tool: clean" >&2 || { tail -n 20 "$build.$tool.log" >&2; code=1; }
  done
fi
exit $code
