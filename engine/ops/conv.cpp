#include "engine/ops/conv.h"

#include "engine/ops/conv_shapes.h"

namespace etalon {

ConvGeometry conv_geometry(const ConvParams& params, const Shape& x, const Shape& w) {
  if (w.rank() != x.rank())
    throw bad_input("x {} and w {} must have the same rank", to_string(x), to_string(w));
  if (x.rank() < 3) throw bad_input("x must be [N,C,spatial...], got {}", to_string(x));
  ConvGeometry g{.batch = x[0],
                 .in_channels = x[1],
                 .out_channels = w[0],
                 .groups = params.groups,
                 .window = make_window(x, w.dims().subspan(2), params)};
  if (g.groups < 1 || g.in_channels % g.groups != 0 || g.out_channels % g.groups != 0)
    throw bad_input("{} groups do not divide {} input and {} output channels", g.groups,
                    g.in_channels, g.out_channels);
  if (w[1] != g.group_in())
    throw bad_input("w {} has {} channels a group, x {} with {} groups has {}", to_string(w), w[1],
                    to_string(x), g.groups, g.group_in());
  return g;
}

Shape ConvGeometry::output_shape() const {
  return window_output_shape(batch, out_channels, window);
}

const OpRow& conv_op() {
  static const OpRow row{
      .name = "conv",
      .summary = "Convolution in 1, 2 or 3 dimensions, with groups, strides, dilation and padding.",
      .nature = OpNature::sum,
      .min_inputs = 2,
      .max_inputs = 3,
      .defaults = [] { return Params(ConvParams{}); },
      .infer =
          [](const Params& p, const InferInputs& in) {
            return conv_output_type(conv_geometry(p.as<ConvParams>(), in.shape(0), in.shape(1)),
                                    in);
          },
      .input_names = [] { return std::vector<std::string_view>{"x", "w", "b"}; },
  };
  return row;
}

}  // namespace etalon
