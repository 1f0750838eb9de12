// Claim: no kernel touches memory before or behind an input. Weights are views of mapped files and
// inputs may be anybody's memory, so the next byte may lie in a page that is not there: here it
// does.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"
#include "tests/peak_memory.h"
#include "tests/proven.h"

using namespace etalon;

namespace {

enum class Side { front, behind };

// The same elements, up against a page that cannot be read.
Tensor guarded(const Tensor& t, Side side) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t size = t.size_bytes(), room = (size + page - 1) / page * page;
  const std::size_t all = room + 2 * page;
  void* p = ::mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(p != MAP_FAILED);
  const std::shared_ptr<void> keeper(p, [all](void* q) { ::munmap(q, all); });
  auto* first = static_cast<std::byte*>(p) + page;
  if (room > 0) REQUIRE(::mprotect(first, room, PROT_READ | PROT_WRITE) == 0);
  std::byte* at = side == Side::front ? first : first + room - size;
  if (size > 0) std::memcpy(at, t.bytes().data(), size);
  return Tensor::view(t.dtype(), t.shape(), {at, size}, keeper);
}

OpRun run(const OpCase& c, const std::vector<Tensor>& inputs, const RunOptions& options) {
  return run_op(*c.op, c.params, pointers(inputs), all_kernels(), options);
}

}  // namespace

TEST_CASE("inputs: nothing before or behind them is read") {
  if (test::kKeepsFreed) return;  // AddressSanitizer sees it in every test
  const std::vector<Isa> isas = instruction_sets();
  int runs = 0;
  for (const OpCase& c : op_cases()) {
    const std::vector<Tensor> inputs = case_inputs(c);
    std::vector<Tensor> front, behind;
    for (const Tensor& t : inputs) {
      front.push_back(t ? guarded(t, Side::front) : Tensor());
      behind.push_back(t ? guarded(t, Side::behind) : Tensor());
    }
    for (const char* contract : {"seq", "exact", "order=lanes:8", "fma=off,round=rz"})
      for (const Isa isa : isas) {
        const RunOptions options{.contract = Contract::parse(contract), .isa = isa, .threads = 2};
        INFO(c.line, " [", std::string(contract), "] isa=", name(isa));
        const OpRun want = run(c, inputs, options);
        // The definition reads element by element.
        if (want.kernel->name.ends_with(".definition")) continue;
        for (const auto* bounded : {&front, &behind}) {
          const OpRun got = run(c, *bounded, options);
          ++runs;
          for (std::size_t o = 0; o < want.outputs.size(); ++o)
            CHECK(hash_tensor(got.outputs[o]) == hash_tensor(want.outputs[o]));
        }
      }
  }
  CHECK(runs > (detect_isa() >= Isa::avx2 ? 2000 : 0));
}
