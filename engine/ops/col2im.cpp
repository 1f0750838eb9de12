#include "engine/ops/col2im.h"

#include "engine/ops/ints_input.h"

namespace etalon {

Col2ImGeometry col2im_geometry(const Col2ImParams& p, const InferInputs& in) {
  const Shape& x = in.shape(0);
  if (x.rank() != 3)
    throw bad_input("x must be [N, channels * taps, windows], got {}", to_string(x));
  const Ints image = ints_or(in, 1, p.image_shape), block = ints_or(in, 2, p.block_shape);
  Ints dims{x[0], 0};
  dims.insert(dims.end(), image.begin(), image.end());
  WindowParams sliding;
  sliding.strides = p.strides;
  sliding.dilations = p.dilations;
  sliding.pads_begin = p.pads_begin;
  sliding.pads_end = p.pads_end;
  Col2ImGeometry g{
      x[0], 0, make_window(Shape(std::span<const std::int64_t>(dims)), block, sliding), {}};
  if (x[1] % g.window.taps() != 0)
    throw bad_input("x {} has {} columns, which {} taps do not divide", to_string(x), x[1],
                    g.window.taps());
  if (x[2] != g.window.out_points())
    throw bad_input("x {} has {} windows, the image has {}", to_string(x), x[2],
                    g.window.out_points());
  g.channels = dims[1] = x[1] / g.window.taps();
  g.output = Shape(std::span<const std::int64_t>(dims));
  return g;
}

const OpRow& col2im_op() {
  static const OpRow row{
      .name = "col2im",
      .summary = "Columns of windows added back into the image.",
      .nature = OpNature::sum,
      .max_inputs = 3,
      .defaults = [] { return Params(Col2ImParams{}); },
      .infer =
          [](const Params& p, const InferInputs& in) {
            if (!is_floating(in.dtype(0)))
              throw bad_input("defined on floating types, got {}; cast x", name(in.dtype(0)));
            return std::vector<TensorType>{
                {in.dtype(0), col2im_geometry(p.as<Col2ImParams>(), in).output}};
          },
      .input_names =
          [] { return std::vector<std::string_view>{"x", "image_shape", "block_shape"}; },
  };
  return row;
}

}  // namespace etalon
