// A device made of host memory, for tests: a table of kernels/backends/cuda/api.h whose kernels are
// the host shims of the GPU's. Work on a stream is queued and done when the stream is waited for,
// never before, so that a result that is read too early, or memory given up too early, shows.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "kernels/backends/cuda/api.h"

namespace etalon {

struct HostDevice {
  HostDevice();  // a device of 8 GiB, sm_90, nothing wrong with it
  ~HostDevice();
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  cuda::Api api;

  // What to answer.
  int count = 1, count_code = 0;
  cuda::DeviceFacts facts{.name = "Host", .major = 9, .minor = 0, .driver = 13000};
  std::size_t room = std::size_t{8} << 30;
  // The call of this number (from 0, of all that can fail) and all after it fail with `fail_code`.
  std::int64_t fail_at = -1;
  int fail_code = 719;
  // Of recurrent cells (kernels/recurrent/cuda_scan.h): the tile of a step, -1 as chosen, and how
  // many steps a chunk may have, 0 as chosen.
  int scan_tile = -1;
  std::int64_t scan_steps = 0;
  // Whether cells of kernels/recurrent/cuda_held.h are computed so, and how many chunks were.
  bool scan_hold = true;
  std::int64_t held = 0;

  int tile_shape = -1;  // of kernels/gemm/cuda_tile_choice.h; -1: as it chooses

  // Of products by residues; tests that are to see small ones say `least = 1`.
  cuda::ResidueFacts residue_facts{.units = true, .code = true};

  // What happened.
  std::uint32_t foreseen = 0;  // of the last product by residues (cuda_residue_forecast.h)
  std::int64_t calls = 0, launches = 0, graph_launches = 0, waits = 0;
  std::set<std::string> wide_blocks;  // the blocks of cuda_wide.h that ran
  std::int64_t open = 0;  // outputs that a first pass in digits or residues left to the second
  std::size_t used = 0, peak = 0;
  std::map<void*, std::size_t> live;
};

}  // namespace etalon
