#include "tests/gpu/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "engine/core/hash.h"
#include "engine/core/threads.h"
#include "kernels/kernels.h"
#include "tests/gpu/record.h"

namespace etalon {
namespace {

// The first element that differs, its bits on both.
std::string place(const Call& got, const OpRun& want) {
  for (std::size_t o = 0; o < got.outputs.size(); ++o) {
    const auto a = got.outputs[o].bytes(), b = want.outputs[o].bytes();
    const std::size_t size = static_cast<std::size_t>(size_bytes(got.outputs[o].dtype()));
    const auto hex = [&](std::span<const std::byte> bytes, std::size_t at) {
      std::string text;
      for (std::size_t i = size; i-- > 0;)
        text += fmt::format("{:02x}", static_cast<unsigned>(bytes[at + i]));
      return text;
    };
    for (std::size_t at = 0; at < a.size(); at += size)
      if (!std::ranges::equal(a.subspan(at, size), b.subspan(at, size)))
        return fmt::format("output {} element {}: {}, {} (device, CPU)", o, at / size, hex(a, at),
                           hex(b, at));
  }
  return "types";
}

}  // namespace

Call::Call(const OpCase& of, const Contract& k) : c(of), contract(k) {
  inputs = case_inputs(c);
  in = pointers(inputs);
  for (const Tensor* t : in)
    types.push_back(t == nullptr ? InferInput{} : InferInput{t->type(), t, true});
  output_types = infer(*c.op, c.params, InferInputs(types));
  for (const TensorType& y : output_types) outputs.push_back(Tensor::zeros(y.dtype, y.shape));
  problem = {.op = c.op,
             .params = &c.params,
             .inputs = types,
             .outputs = output_types,
             .contract = &contract,
             .device = Device::cuda,
             .isa = detect_isa()};
}

OpRun Call::on_cpu(const char* text) const {
  RunOptions options{.contract = Contract::parse(text)};
  options.threads = hardware_threads();
  return run_op(*c.op, c.params, in, all_kernels(), options);
}

std::string hash_of(std::span<const Tensor> outputs) {
  HashStream all;
  for (const Tensor& t : outputs) all.update(t);
  return to_string(all.digest());
}

bool Agreement::compare(const OpCase& c, const KernelRow& row, const char* text) {
  Call call(c, Contract::parse(text));
  if (row.refuse != nullptr && row.refuse(call.problem)) return false;
  row.run(call.call());
  const OpRun want = call.on_cpu(text);
  ++compared;
  hash = hash_of(call.outputs);
  if (hash == hash_of(want.outputs))
    ++equal;
  else if (first_difference.empty())
    first_difference = fmt::format("{} under {}: {}", c.line, text, place(call, want));
  return true;
}

// Lines of cases: NAME TYPES parameters, of which 3x3 is a list.
std::vector<OpCase> shapes_of(const char* op) {
  std::vector<OpCase> cases;
  std::ifstream file(std::string(ETALON_SOURCE_DIR) + "/bench/shapes/" + op + ".txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::string name, types, params;
    std::size_t at = 0;
    while (at < line.size()) {
      const std::size_t end = std::min(line.find(' ', at), line.size());
      std::string word = line.substr(at, end - at);
      at = end + 1;
      if (word.empty()) continue;
      if (name.empty()) {
        name = word;
      } else if (const std::size_t equals = word.find('='); equals == std::string::npos) {
        types += " " + word;
      } else {
        std::string value = word.substr(equals + 1);
        const bool list = value.find_first_not_of("0123456789x") == std::string::npos &&
                          value.find('x') != std::string::npos;
        std::ranges::replace(value, 'x', list ? ',' : 'x');
        params += " " + word.substr(0, equals + 1) + (list ? "[" + value + "]" : value);
      }
    }
    const std::string text = fmt::format("{} | {} |{} |{}", name, op, params, types);
    // Types that a case cannot say (a layout of its own) are another program's.
    if (failure_of([&] { cases.push_back(parse_op_case(text)); }).empty()) continue;
    fmt::print(stderr, "left out: {}\n", text);
  }
  return cases;
}

}  // namespace etalon
