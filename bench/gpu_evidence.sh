#!/usr/bin/env bash
# Evidence from a machine with a GPU, made without a network.
#   bench/gpu_evidence.sh pack FOLDER      where the packages are: copies the four header-only libraries
#                                          that the build needs (fmt, xxHash, doctest, nlohmann-json),
#                                          each with its licence, into FOLDER (2.5 MB)
#   bench/gpu_evidence.sh FOLDER OUT.json [COMMIT [SECONDS]]
#                                          on the GPU machine, with its own nvcc (12.4 or newer), CMake and
#                                          ninja or make: builds the engine and the CUDA kernels, then
#                                          runs conformance, networks, tensor cores, vendors, times and
#                                          compute-sanitizer, in this sequence. OUT.json is whole after
#                                          each result; nothing new begins SECONDS (540) after the start
# cuBLAS and cuDNN are opened at run time: those that Python packages brought are found too. COMMIT is
# for a copy without git. ETALON_CUDA_ARCHITECTURES (90a-real) names the machine code that is made.
# Exit code: 0 all hashes equal the CPU's, 1 one does not, 4 no compiler or no device.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
usage() { sed -n '2,16s/^# \{0,1\}//p' "$0" >&2; exit 2; }

if [ "${1:-}" = pack ]; then
  folder=${2:?$(usage)}
  mkdir -p "$folder/licences"
  for header in fmt xxhash.h doctest nlohmann; do cp -r "/usr/include/$header" "$folder/"; done
  for package in libfmt-dev libxxhash-dev doctest-dev nlohmann-json3-dev; do
    cp "/usr/share/doc/$package/copyright" "$folder/licences/$package"
  done
  exit 0
fi

[ -n "${1:-}" ] && headers=$(readlink -f "$1") && [ -e "$headers/fmt/format.h" ] || usage
out=${2:-} limit=${4:-540}
[ -n "$out" ] || usage
commit=${3:-$(git -C "$root" rev-parse --short HEAD 2> /dev/null || echo unknown)}
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2> /dev/null) ||
  { echo "gpu_evidence.sh: no nvcc on this machine; install CUDA 12.4 or newer" >&2; exit 4; }
command -v cmake > /dev/null || { echo "gpu_evidence.sh: no CMake on this machine; install 3.25 or newer" >&2; exit 4; }
build=$root/build/gpu
mkdir -p "$root/build"
generator=(); command -v ninja > /dev/null && generator=(-G Ninja)
defines=()
for header in fmt/format.h xxhash.h doctest/doctest.h nlohmann/json.hpp; do
  defines+=("-DETALON_PATH_$header=$headers")
done
cmake -S "$root" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DETALON_ENGINE_ONLY=ON \
  -DETALON_ONEDNN=OFF -DETALON_CUDA=ON -DETALON_WERROR=OFF -DCMAKE_CUDA_COMPILER="$nvcc" \
  -DCMAKE_CUDA_ARCHITECTURES="${ETALON_CUDA_ARCHITECTURES:-90a-real}" "${defines[@]}" > "$build.log" 2>&1 ||
  { tail -n 20 "$build.log" >&2; echo "gpu_evidence.sh: CMake could not configure (log: $build.log)" >&2; exit 4; }
cmake --build "$build" --target gpu_evidence -j "$(nproc)" >> "$build.log" 2>&1 ||
  { grep -E -A8 'error|FAILED' "$build.log" | head -60 >&2; echo "gpu_evidence.sh: the build failed (log: $build.log)" >&2; exit 4; }
echo "built in $SECONDS s" >&2

# Where pip puts NVIDIA's libraries.
for lib in $(python3 - << 'END' 2> /dev/null || true
import glob, site, sysconfig
for base in {sysconfig.get_paths()["purelib"], *site.getsitepackages()}:
    print(*glob.glob(base + "/nvidia/*/lib"))
END
); do LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; done
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}

program=$build/bin/gpu_evidence code=0 answer=0
stage() { # stage NAME SECONDS: until it ends, in at most six processes: a lost device ends one
  local name=$1 left attempt
  for attempt in 1 2 3 4 5 6; do
    left=$((limit - SECONDS)); [ "$left" -lt "$2" ] || left=$2
    [ "$left" -gt 5 ] || { echo "$name: no time left" >&2; return 0; }
    answer=0
    timeout -k 5 $((left + 30)) "$program" "$out" "$commit" "$name" "$left" || answer=$?
    [ $answer != 4 ] || exit 4
    [ $answer = 0 ] || code=1
    # A lost device, a crash or a hang ends a process, not the stage.
    case $answer in 0 | 1 | 2 | 70) return 0 ;; esac
    echo "$name: ended with $answer, once more" >&2
  done
}
stage rows 150
stage tensor_cores 40
stage networks 80
stage sizes 100
stage times 150
stage vendors 60
if command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck initcheck synccheck; do
    left=$((limit - SECONDS))
    [ $left -gt 20 ] || { echo "compute-sanitizer $tool: no time left" >&2; continue; }
    answer=0
    timeout $left compute-sanitizer --tool $tool --error-exitcode 9 "$program" - - sanitize > "$build.$tool.log" 2>&1 || answer=$?
    case $answer in
      0) verdict=clean ;;
      124) verdict="not at its end in $left s" ;;
      9) verdict=findings; code=1 ;;
      *) verdict="ended with $answer"; code=1 ;;
    esac
    echo "compute-sanitizer $tool: $verdict" >&2
    [ "$verdict" = clean ] || tail -n 20 "$build.$tool.log" >&2
    python3 - "$out" $tool "$verdict" "$build.$tool.log" << 'END' || true
import json, sys
path, tool, verdict, log = sys.argv[1:]
record = json.load(open(path))
entry = {"verdict": verdict}
if verdict != "clean":
    entry["log"] = open(log, errors="replace").read()[-4000:]
record.setdefault("sanitizer", {})[tool] = entry
json.dump(record, open(path, "w"), indent=1)
END
  done
fi
exit $code
