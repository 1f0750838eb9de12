#!/usr/bin/env bash
# cuda_sass.sh LIBRARY TOOLKIT: reads the machine code of the tiled kernels (kernels/gemm/cuda_tile.cu).
# Under fma=off no FFMA may stand in them: a product contracted with its sum is rounded once where the
# contract says twice. That FMUL and FADD are found, and FFMA in the fused kernels, shows that code was
# read at all: cuobjdump prints none where nvdisasm is not beside it. Kernels with a division or a root
# are not judged: there FFMA belongs to the instruction sequence that makes them exact.
# Nowhere may VIMNMX.RELU hand out a predicate: for sm_90, ptxas 13.0 makes one and the same instruction of
# max(min(a, b), 0) == a and of max(min(a, b), 0) == b (docs/adr/0013).
# And that wgmma's check (kernels/backends/cuda/tensor_core_check.cu) has its instructions: six formats on sm_90a.
set -euo pipefail
library=${1:?usage: cuda_sass.sh LIBRARY TOOLKIT} toolkit=${2:?usage: cuda_sass.sh LIBRARY TOOLKIT}
PATH=$toolkit/bin:$PATH
cuobjdump -sass "$library" | awk '
  # Tile<TileShapes<n>, along a, along b, windows, fused, by fours>
  /Function : / { f = $0; tile = "run_tile.*TileShapesILi[0-9]+EEELb[01]ELb[01]ELb[01]ELb"
                  kind = f ~ (tile "0E") ? "off" : f ~ (tile "1E") ? "on" : ""; if (kind != "") functions[kind]++ }
  /HGMMA|QGMMA/ { wgmma++ }
  /VIMNMX[^ ]*RELU[^ ]* R[0-9Z]+, P[0-9]/ { print "cuda_sass: " $0 " in " f > "/dev/stderr"; relu++ }
  kind != "" && match($0, /[ \t](FFMA|FMUL|FADD)[. ]/) { n[kind, substr($0, RSTART + 1, 4)]++ }
  END {
    for (k in functions) printf "fma=%s: %d kernels, %d FFMA, %d FMUL, %d FADD\n", k, functions[k], n[k, "FFMA"], n[k, "FMUL"], n[k, "FADD"]
    printf "wgmma: %d instructions\n", wgmma
    if (wgmma < 6) { print "cuda_sass: the check of wgmma has no wgmma" > "/dev/stderr"; exit 1 }
    if (!functions["off"] || !functions["on"] || !n["off", "FMUL"] || !n["off", "FADD"] || !n["on", "FFMA"]) {
      print "cuda_sass: no machine code was read, or not that of the tiled kernels" > "/dev/stderr"; exit 1 }
    if (relu) { print "cuda_sass: a predicate of VIMNMX.RELU, which ptxas 13.0 gets wrong" > "/dev/stderr"; exit 1 }
    if (n["off", "FFMA"]) { print "cuda_sass: FFMA stands in a kernel of fma=off" > "/dev/stderr"; exit 1 }
  }'
