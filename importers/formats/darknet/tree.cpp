// Classes in a tree: a file of lines "name parent", the classes of one parent in sequence. The
// chances of a class are among the children of its parent.
#include <algorithm>
#include <charconv>
#include <map>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/darknet/layer.h"
#include "importers/formats/translate.h"

namespace etalon::darknet {
namespace {

constexpr std::int64_t kMaxClasses = 1 << 16;

// The lengths of runs of one parent, which a line without one does not have (-1).
Ints runs_of(std::string_view text) {
  Ints runs;
  std::int64_t last = 0, lines = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::size_t space = line.find(' ');
    std::int64_t parent = -1;
    if (space != std::string_view::npos) {
      const std::string_view number = line.substr(line.find_first_not_of(' ', space));
      const auto r = std::from_chars(number.data(), number.data() + number.size(), parent);
      if (r.ec != std::errc() || r.ptr != number.data() + number.size())
        throw bad_input("line {} is '{}', expected a name and the number of its parent", lines + 1,
                        printable(line));
    }
    if (parent < -1 || parent >= lines)
      throw bad_input("line {} has the parent {}, which stands on none of the lines before it",
                      lines + 1, parent);
    if (++lines > kMaxClasses) throw bad_input("more than {} classes", kMaxClasses);
    if (runs.empty() || parent != last) runs.push_back(0);
    ++runs.back();
    last = parent;
  }
  return runs;
}

}  // namespace

// Runs of one length stand together, so that there is one softmax a length.
ValueId tree_softmax(const Layer& l, ValueId x, int axis, const std::string& file) {
  const ErrorScope where(fmt::format("the tree {}", printable(file)));
  const Blob blob = l.file(file);
  const Ints runs = runs_of(blob.text());
  const std::int64_t classes = l.g.shape(x)[axis];
  std::int64_t sum = 0;
  std::map<std::int64_t, Ints> firsts;  // of runs by their length
  for (const std::int64_t run : runs) {
    firsts[run].push_back(sum);
    sum += run;
  }
  if (sum != classes) throw bad_input("{} lines for {} classes", sum, classes);
  Ints order, sizes;
  for (const auto& [length, all] : firsts) {
    for (const std::int64_t first : all)
      for (std::int64_t i = 0; i < length; ++i) order.push_back(first + i);
    sizes.push_back(length * static_cast<std::int64_t>(all.size()));
  }
  Ints back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  const Fields along{{"axis", std::int64_t{axis}}};
  const ValueId sorted =
      l.op("gather", "by_length", {x, l.constant("order", ints_tensor(order))}, along);
  std::vector<ValueId> parts = l.g.nodes(
      "split", l.name + ".lengths", {sorted},
      make_params(get_op("split"), {{"axis", std::int64_t{axis}}, {"split", sizes}}), sizes.size());
  std::size_t at = 0;
  for (const auto& [length, all] : firsts) {
    Ints one = l.g.dims(x), many = one;
    one[static_cast<std::size_t>(axis)] = sizes[at];
    many[static_cast<std::size_t>(axis)] = length;
    many.insert(many.begin() + axis, static_cast<std::int64_t>(all.size()));
    const ValueId runs_of_one =
        l.op("reshape", fmt::format("runs{}", length), {parts[at]}, {{"shape", many}});
    const ValueId chances = l.op("softmax", fmt::format("chances{}", length), {runs_of_one},
                                 {{"axis", std::int64_t{axis} + 1}});
    parts[at++] = l.op("reshape", fmt::format("flat{}", length), {chances}, {{"shape", one}});
  }
  const ValueId y = l.op("concat", "together", parts, along);
  l.g.note("classes in a tree: a softmax over the children of each parent");
  return l.op("gather", "chances", {y, l.constant("back", ints_tensor(back))}, along);
}

}  // namespace etalon::darknet
