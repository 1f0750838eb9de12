#!/usr/bin/env bash
# Evidence from a machine with a GPU, made without a network.
#   bench/gpu_evidence.sh pack FOLDER      where the packages are: copies the four header-only libraries
#                                          that the build needs (fmt, xxHash, doctest, nlohmann-json),
#                                          each with its licence, into FOLDER (2.5 MB)
#   bench/gpu_evidence.sh FOLDER OUT.json [COMMIT [SECONDS]]
#                                          on the GPU machine, with its own nvcc (12.4 or newer), CMake and
#                                          ninja or make: builds the engine and the CUDA kernels, then
#                                          runs rows, functions, tensor cores, networks, vendors, sizes, times and
#                                          compute-sanitizer, in this sequence. OUT.json is whole after
#                                          each result; nothing new begins SECONDS (540) after the start
# Beside OUT.json: OUT.log, all that is said here; OUT.build.log; OUT.TOOL.log of a sanitizer's findings.
# A stage that fails has its reason in OUT.json and costs no other stage. With OUT.json there already,
# what it holds is not run again.
# cuBLAS and cuDNN are opened at run time: those that Python packages brought are found too. COMMIT is
# for a copy without git. ETALON_CUDA_ARCHITECTURES (90a-real) names the machine code that is made,
# ETALON_STAGES the stages to run (rows functions tensor_cores networks sizes times vendors sanitizer),
# ETALON_PROGRAM a gpu_evidence that was built elsewhere, which is then not built here.
# Exit code: 0 all hashes equal the CPU's, 1 one does not or a stage failed, 4 no compiler or no device.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
usage() { sed -n '2,22s/^# \{0,1\}//p' "$0" >&2; exit 2; }

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
case $out in *.json) ;; *) usage ;; esac
mkdir -p "$(dirname "$out")"
stem=${out%.json} build=$root/build/gpu
exec 2> >(tee -a "$stem.log" >&2)
# Before there is a program that writes the record: why there will be none.
give_up() {
  echo "gpu_evidence.sh: $1" >&2
  [ ! -e "$build.log" ] || tail -c 400000 "$build.log" > "$stem.build.log"
  [ -e "$out" ] || printf '{"commit": "%s", "failed": "%s"}\n' "$commit" "${1//[\"\\]/}" > "$out"
  exit 4
}
build_here() {
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2> /dev/null) || give_up "no nvcc on this machine; install CUDA 12.4 or newer"
  command -v cmake > /dev/null || give_up "no CMake on this machine; install 3.25 or newer"
  mkdir -p "$root/build"
  generator=(); command -v ninja > /dev/null && generator=(-G Ninja)
  defines=()
  for header in fmt/format.h xxhash.h doctest/doctest.h nlohmann/json.hpp; do
    defines+=("-DETALON_PATH_$header=$headers")
  done
  cmake -S "$root" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DETALON_ENGINE_ONLY=ON \
    -DETALON_ONEDNN=OFF -DETALON_CUDA=ON -DETALON_WERROR=OFF -DCMAKE_CUDA_COMPILER="$nvcc" \
    -DCMAKE_CUDA_ARCHITECTURES="${ETALON_CUDA_ARCHITECTURES:-90a-real}" "${defines[@]}" > "$build.log" 2>&1 ||
    { tail -n 20 "$build.log" >&2; give_up "CMake could not configure"; }
  timeout "$limit" cmake --build "$build" --target gpu_evidence -j "$(nproc)" >> "$build.log" 2>&1 ||
    { grep -E -A8 'error|FAILED' "$build.log" | head -60 >&2; give_up "the build failed, or took more than $limit s"; }
  tail -c 400000 "$build.log" > "$stem.build.log"
  program=$build/bin/gpu_evidence said="built there in $SECONDS s"
}
if [ -n "${ETALON_PROGRAM:-}" ]; then
  program=$(readlink -f "$ETALON_PROGRAM") said="built elsewhere"
else
  build_here
fi
echo "$said" >&2

# Where pip puts NVIDIA's libraries.
for lib in $(python3 - << 'END' 2> /dev/null || true
import glob, site, sysconfig
for base in {sysconfig.get_paths()["purelib"], *site.getsitepackages()}:
    print(*glob.glob(base + "/nvidia/*/lib"))
END
); do LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; done
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}

code=0 stages=" ${ETALON_STAGES:-rows functions tensor_cores networks sizes times vendors sanitizer} "
note() { # note STAGE TEXT: into the record, by a program that needs no device for it
  echo "$1: $2" >&2
  "$program" "$out" "$commit" note "$1" "$2" || echo "the record could not be written" >&2
}
stage() { # stage NAME SECONDS: until it ends; a lost device, a crash or a hang ends a process
  local name=$1 end=$((SECONDS + $2)) left attempt answer
  [[ $stages = *" $name "* ]] || return 0
  [ "$end" -lt "$limit" ] || end=$limit
  for attempt in {1..30}; do  # each leaves behind what ended the one before
    left=$((end - SECONDS))
    [ "$left" -gt 5 ] || { code=1; note "$name" "no time left"; return 0; }
    answer=0
    timeout -k 5 $((left + 30)) "$program" "$out" "$commit" "$name" "$left" || answer=$?
    case $answer in
      0) return 0 ;;
      1) code=1; return 0 ;;
      3) [ $code = 1 ] || code=4; return 0 ;;  # no device: said in the record
      2 | 70 | 126 | 127) code=1; note "$name" "ended with $answer: the last lines of $(basename "$stem").log say why"; return 0 ;;
    esac
    code=1
    echo "$name: ended with $answer, once more" >&2
  done
  note "$name" "given up after $attempt processes"
}
note build "$said"
stage rows 100
stage functions 40
stage tensor_cores 40
stage networks 60
stage vendors 60
stage sizes 60
stage times 150
sanitize() {
  local tool answer left verdict
  command -v compute-sanitizer > /dev/null || { note sanitizer "no compute-sanitizer on this machine"; return; }
  for tool in memcheck racecheck initcheck synccheck; do
    left=$((limit - SECONDS))
    [ $left -gt 20 ] || { note "sanitizer $tool" "no time left"; continue; }
    answer=0
    timeout -k 5 $left compute-sanitizer --tool $tool --error-exitcode 9 "$program" - - sanitize > "$stem.$tool.log" 2>&1 || answer=$?
    case $answer in
      0) verdict=clean; rm -f "$stem.$tool.log" ;;
      3) verdict="no device"; [ $code = 1 ] || code=4 ;;
      124) verdict="not at its end in $left s" ;;
      9) verdict="findings: $(grep -m1 -oE 'ERROR SUMMARY.*' "$stem.$tool.log" || true)"; code=1 ;;
      *) verdict="ended with $answer"; code=1 ;;
    esac
    note "sanitizer $tool" "$verdict"
    [ "$verdict" = clean ] || tail -n 12 "$stem.$tool.log" >&2
  done
}
[[ $stages != *" sanitizer "* ]] || sanitize
exit $code
