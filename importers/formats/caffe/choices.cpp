#include "importers/formats/caffe/translator.h"

namespace etalon::caffe {

// The places of the top_k largest elements, as f32: along an axis (with out_max_val the values in
// their stead), or of a whole sample, [N, 1 or 2, top_k], the second row the values. Of equal
// elements Caffe takes the last one first.
void Translator::arg_max() {
  const PbMessage p = l_->params.message("argmax_param");
  const std::int64_t k = p.integer("top_k", 1);
  const bool along = p.has("axis"), values = p.flag("out_max_val");
  const ValueId flat =
      along ? x() : g.op("flatten", l_->name + ".sample", {x()}, {{"axis", std::int64_t{1}}});
  const std::int64_t at = along ? axis(p.integer("axis"), flat) : 1;
  const std::int64_t n = g.shape(flat)[static_cast<int>(at)];
  if (k < 1 || k > n) throw bad_input("top_k {} of {} elements", k, n);
  const ValueId turned = g.op("slice", l_->name + ".turned", {flat},
                              {{"starts", Ints{-1}},
                               {"ends", Ints{-(std::int64_t{1} << 60)}},
                               {"axes", Ints{at}},
                               {"steps", Ints{-1}}});
  const std::vector<ValueId> best =
      g.nodes("top_k", l_->name + ".best", {turned},
              make_params(get_op("top_k"), {{"axis", at}, {"k", k}}), 2);
  const ValueId place =
      g.op("sub", l_->name + ".place",
           {g.constant(l_->name + ".last", scalar_f32(static_cast<float>(n - 1))),
            g.op("cast", l_->name + ".from_the_end", {best[1]}, {{"to", std::string("f32")}})});
  g.note("ArgMax: of equal elements the last one, places as f32");
  if (along) {
    top(op("identity", {values ? best[0] : place}));
    return;
  }
  const auto row = [&](const char* part, ValueId v) {
    return g.op("unsqueeze", l_->name + part, {v}, {{"axes", Ints{1}}});
  };
  if (values)
    top(op("concat", {row(".places", place), row(".values", best[0])},
           {{"axis", std::int64_t{1}}}));
  else
    top(row(".places", place));
}

// He and others, arXiv 1406.4729: level i pools 2^i by 2^i bins, each level is flattened, all stand
// behind one another. Caffe's windows cover the picture with half of what is missing on either
// side.
void Translator::spatial_pyramid() {
  const PbMessage p = l_->params.message("spp_param");
  const std::int64_t height = p.integer("pyramid_height");
  const std::string kind = p.text("pool", "MAX");
  const Ints dims = g.dims(x());
  if (dims.size() != 4 || dims[2] < 1 || dims[3] < 1)
    throw bad_input("a pyramid over pictures of free extents");
  if (height < 1 || height > 16) throw bad_input("a pyramid of {} levels", height);
  if (kind != "MAX" && kind != "AVE") throw bad_input("{} pooling in a pyramid", kind);
  std::vector<ValueId> levels;
  for (std::int64_t level = 0; level < height; ++level) {
    const std::int64_t bins = std::int64_t{1} << level;
    Ints kernel, pad;
    for (const std::int64_t n : {dims[2], dims[3]}) {
      kernel.push_back((n + bins - 1) / bins);
      pad.push_back((kernel.back() * bins - n + 1) / 2);
      if (pad.back() >= kernel.back()) throw bad_input("{} bins over {} elements", bins, n);
    }
    Fields f = window_fields(
        {.kernel = kernel, .strides = kernel, .dilations = {}, .pads_begin = pad, .pads_end = pad},
        true);
    f.emplace_back("ceil_mode", true);
    if (kind == "AVE") f.emplace_back("count_include_pad", true);
    const std::string name = fmt::format("{}.level{}", l_->name, level);
    levels.push_back(g.op("flatten", name,
                          {g.op(kind == "AVE" ? "avg_pool" : "max_pool", name + ".bins", {x()}, f)},
                          {{"axis", std::int64_t{1}}}));
  }
  top(op("concat", levels, {{"axis", std::int64_t{1}}}));
}

}  // namespace etalon::caffe
