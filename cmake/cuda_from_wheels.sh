#!/usr/bin/env bash
# cuda_from_wheels.sh [FOLDER]: a CUDA 13.0 compiler from pinned Python wheels, for machines without a
# system CUDA. Makes the virtual environment FOLDER (.etalon/cuda, where the preset 'cuda' looks) when
# absent, mends the layout that CMake expects, and prints the path of nvcc, FOLDER/toolkit/bin/nvcc.
# 104 MB to fetch, 420 MB on disk; nothing outside FOLDER is touched.
set -euo pipefail
folder=${1:-$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)/.etalon/cuda}
nvcc=$folder/toolkit/bin/nvcc
wheels=(nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88
        nvidia-cuda-cccl==13.0.85 nvidia-cuda-runtime==13.0.96
        nvidia-cuda-cuobjdump==13.2.86 nvidia-cuda-nvdisasm==13.2.86)  # these two read machine code
[ -x "$folder/bin/python" ] || /usr/bin/python3 -m venv "$folder"
# --no-deps: the wheels' own requirements have no upper bound and would mix CUDA versions.
"$folder/bin/python" -m pip install -q --no-cache-dir --disable-pip-version-check --no-deps --only-binary :all: "${wheels[@]}" >&2
root=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/nvidia/cu13
[ -x "$root/bin/nvcc" ] || { echo "cuda_from_wheels.sh: the wheels brought no nvcc; remove $folder and try again" >&2; exit 4; }
[ -e "$root/lib64" ] || ln -s lib "$root/lib64"
for library in "$root"/lib/lib*.so.*; do
  plain=${library%%.so.*}.so
  [ -e "$plain" ] || ln -s "${library##*/}" "$plain"
done
ln -sfn "${root#"$folder"/}" "$folder/toolkit"
echo "$nvcc"
