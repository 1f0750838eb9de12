// Calls of functions, which are inlined.
#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/tf/importer.h"

namespace etalon::tf {

// A function, in this graph or in the body that a loop owns.
BodyWriter Importer::called(const std::string& function, const std::string& prefix, int depth) {
  return [=, this](GraphBuilder& g, const std::vector<ValueId>& in) {
    if (&g == &g_) return inlined(function, in, prefix, depth + 1);
    return Importer(g, lib_).inlined(function, in, "", depth + 1);
  };
}

// The results of a function.
std::vector<ValueId> Importer::inlined(const std::string& name, const std::vector<ValueId>& inputs,
                                       const std::string& prefix, int depth) {
  count(1);
  const auto f = lib_->functions.find(name);
  if (f == lib_->functions.end()) throw bad_input("the function {} is missing", printable(name));
  const PbMessage signature = f->second.message("signature");
  const auto arguments = signature.messages("input_arg"),
             results = signature.messages("output_arg");
  if (arguments.size() > inputs.size())
    throw bad_input("{} arguments for a function of {}", inputs.size(), arguments.size());
  auto [body, is_new] = lib_->bodies.try_emplace(name, nullptr);
  if (is_new) body->second = std::make_shared<Body>(f->second.messages("node_def"));
  Values inside;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    inside[arguments[i].text("name")] = {inputs[i]};
  std::map<std::string, std::string> ret;
  for (const PbMessage& e : f->second.messages("ret")) ret[e.text("key")] = e.text("value");
  std::vector<std::string> wanted;
  for (const PbMessage& r : results) wanted.push_back(ret[r.text("name")]);
  g_.note("function calls are inlined");
  const std::shared_ptr<Body> keep = body->second;
  return evaluate(*keep, inside, wanted, prefix, depth + 1);
}

}  // namespace etalon::tf
