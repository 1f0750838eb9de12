// Claim: in tensors of more than 2^31 elements each row has the bits of the row alone: no index,
// offset or count of the rows that are chosen for them has 32 bits.
//
// Inputs take next to no memory: a batch repeats a few rows, whose pages are mapped again and
// again. Outputs take what they take, so that a case needs up to ten gigabytes, and all of them
// half an hour.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "engine/graph/executor.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

constexpr std::int64_t kElements = (std::int64_t{1} << 31) + 1000;
constexpr std::int64_t kPatternRows = 4096;  // whole pages, whatever a row's bytes
constexpr std::size_t kMostBytes = std::size_t{10} << 30;
constexpr double kMostSeconds = 15;

bool has_memory() {
  const long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && static_cast<std::size_t>(pages) * static_cast<std::size_t>(size) >
                          kMostBytes + (kMostBytes >> 3);
}

struct Mapping {
  std::byte* at = nullptr;
  std::size_t bytes = 0;
  explicit Mapping(std::size_t count) : bytes(count) {
    void* all = mmap(nullptr, count, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(all != MAP_FAILED);
    at = static_cast<std::byte*>(all);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { munmap(at, bytes); }
};

// Which row of `few` stands at row i of many.
std::int64_t row_of(std::int64_t i, std::int64_t few) { return i % kPatternRows % few; }

Tensor repeated(const Tensor& few, std::int64_t rows) {
  const std::size_t given = few.size_bytes(),
                    row = given / static_cast<std::size_t>(few.shape()[0]),
                    pattern = row * kPatternRows;
  // As many patterns a mapping as make 64 MiB: a process may have some 65000 mappings.
  const std::size_t block = std::max<std::size_t>(1, (std::size_t{64} << 20) / pattern) * pattern;
  const std::size_t bytes = row * static_cast<std::size_t>(rows),
                    blocks = (bytes + block - 1) / block;
  const int file = memfd_create("rows", 0);
  REQUIRE(file >= 0);
  REQUIRE(ftruncate(file, static_cast<off_t>(block)) == 0);
  const auto keeper = std::make_shared<Mapping>(blocks * block);
  for (std::size_t b = 0; b < blocks; ++b)
    REQUIRE(mmap(keeper->at + b * block, block, b == 0 ? PROT_READ | PROT_WRITE : PROT_READ,
                 MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED);
  close(file);
  for (std::size_t p = 0; p < block; p += pattern)
    for (std::size_t at = 0; at < pattern; at += given)
      std::memcpy(keeper->at + p + at, few.bytes().data(), std::min(given, pattern - at));
  return Tensor::view(few.dtype(), few.shape().with_dim(0, rows), {keeper->at, bytes}, keeper);
}

// A case whose inputs and outputs have their batch at the first axis, or not at all.
struct Batched {
  const OpCase& c;
  std::vector<Tensor> in;
  OpRun few;
  std::int64_t rows = 0, widest = 0;  // rows of the case; elements of the widest tensor's row
  std::size_t out_bytes = 0;          // of a row

  explicit Batched(const OpCase& of) : c(of) {
    for (const CaseInput& i : c.inputs) {
      if (!i.given || i.batch_axis < 0) continue;
      const std::int64_t extent = i.type.shape[i.batch_axis];
      if (i.batch_axis != 0 || (rows != 0 && rows != extent)) {
        fail();
        return;
      }
      rows = extent;
    }
    if (rows < 2) {
      fail();
      return;
    }
    in = case_inputs(c);
    few = run(in, 1);
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (c.inputs[i].batch_axis != 0) continue;
      if (in[i].numel() == 0) {
        fail();
        return;
      }
      widest = std::max(widest, in[i].numel() / rows);
    }
    for (const Tensor& y : few.outputs) {
      if (!y) continue;
      if (y.shape().rank() == 0 || y.shape()[0] != rows || y.numel() == 0) {
        fail();
        return;
      }
      widest = std::max(widest, y.numel() / rows);
      out_bytes += y.size_bytes() / static_cast<std::size_t>(rows);
    }
    if (widest == 0 || out_bytes == 0) fail();
  }
  void fail() { rows = 0; }
  std::int64_t batch() const { return (kElements + widest - 1) / widest; }
  bool fits() const {
    return rows != 0 && out_bytes * static_cast<std::size_t>(batch()) <= kMostBytes;
  }

  OpRun run(const std::vector<Tensor>& inputs, int threads) const {
    const auto p = pointers(inputs);
    return run_op(*c.op, c.params, p, all_kernels(), {.threads = threads});
  }
  OpRun run_many(std::int64_t many) const {
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < in.size(); ++i)
      inputs.push_back(!in[i]                        ? Tensor()
                       : c.inputs[i].batch_axis == 0 ? repeated(in[i], many)
                                                     : in[i].share());
    return run(inputs, 2);
  }
  // By the time that 2^22 elements take.
  double seconds() const {
    const std::int64_t some = std::max<std::int64_t>(rows, (std::int64_t{1} << 22) / widest);
    run_many(some);
    const auto begin = std::chrono::steady_clock::now();
    run_many(some);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() *
           static_cast<double>(batch()) / static_cast<double>(some);
  }
  std::int64_t wrong_rows() const {
    const OpRun many = run_many(batch());
    std::int64_t wrong = 0;
    for (std::size_t o = 0; o < few.outputs.size(); ++o) {
      if (!few.outputs[o]) continue;
      const std::size_t row = few.outputs[o].size_bytes() / static_cast<std::size_t>(rows);
      const std::byte *got = many.outputs[o].bytes().data(), *want = few.outputs[o].bytes().data();
      for (std::int64_t i = 0; i < batch(); ++i)
        wrong += std::memcmp(got + static_cast<std::size_t>(i) * row,
                             want + static_cast<std::size_t>(row_of(i, rows)) * row, row) != 0;
    }
    return wrong;
  }
};

}  // namespace

TEST_SUITE("long") {
  TEST_CASE("large tensors: beyond 2^31 elements a row is the row alone") {
    if (!has_memory()) {
      MESSAGE("skipped: this takes ", kMostBytes >> 30, " GiB of free memory");
      return;
    }
    std::set<std::string_view> seen;
    for (const OpCase& c : op_cases()) {
      if (seen.contains(c.op->name)) continue;
      const ErrorScope where(c.line);
      const Batched batched(c);
      if (!batched.fits() || batched.seconds() > kMostSeconds) continue;
      CHECK_MESSAGE(batched.wrong_rows() == 0, c.line);
      seen.insert(c.op->name);
    }
    MESSAGE("large tensors: ", seen.size(), " ops");
    CHECK(seen.size() > 80);
  }
}
