#include "bench/lab/problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/core/philox.h"
#include "engine/numerics/algorithm.h"
#include "engine/numerics/fp.h"

namespace etalon::lab {
namespace {

using nlohmann::json;

std::int64_t extent(const json& q, const char* name, std::int64_t fallback, std::int64_t least,
                    std::int64_t most) {
  const auto at = q.find(name);
  if (at == q.end()) return fallback;
  if (!at->is_number_integer())
    throw usage_error("{}: {} is not a whole number; give one from {} to {}", name, at->dump(),
                      least, most);
  const auto n = at->get<std::int64_t>();
  if (n < least || n > most)
    throw usage_error("{}: {} cannot be; give a number from {} to {}", name, n, least, most);
  return n;
}

std::string word(const json& q, const char* name, const char* fallback) {
  const auto at = q.find(name);
  if (at == q.end()) return fallback;
  if (!at->is_string()) throw usage_error("{}: {} is not a text", name, at->dump());
  return at->get<std::string>();
}

struct Image {
  std::int64_t width = 0, height = 0, colours = 1;
  std::vector<double> pixels;
};

Image read_image(const json& q) {
  const auto at = q.find("image");
  if (at == q.end() || !at->is_object())
    throw usage_error("image: data=image needs an image with width, height and rgb or grey");
  for (const char* needed : {"width", "height"})
    if (!at->contains(needed))
      throw usage_error("image: it has no {}; give one from 1 to 4096", needed);
  Image image;
  image.width = extent(*at, "width", 0, 1, 4096);
  image.height = extent(*at, "height", 0, 1, 4096);
  const bool rgb = at->contains("rgb");
  const json& pixels = rgb ? (*at)["rgb"] : at->contains("grey") ? (*at)["grey"] : json::array();
  image.colours = rgb ? 3 : 1;
  if (!pixels.is_array() ||
      pixels.size() != static_cast<std::size_t>(image.width * image.height * image.colours))
    throw usage_error("image: {} by {} pixels need {} numbers, and {} came", image.width,
                      image.height, image.width * image.height * image.colours, pixels.size());
  for (const json& p : pixels) image.pixels.push_back(p.is_number() ? p.get<double>() : 0);
  return image;
}

void fill(ConvProblem& p, const std::string& data, std::uint64_t seed, const json& q) {
  const Philox rx{seed, 1}, rw{seed, 2};
  const Shape& xs = p.x.shape();
  const Shape& ws = p.w.shape();
  const std::int64_t plane = xs[2] * xs[3], taps = ws[2] * ws[3], channels = xs[1];
  auto x = p.x.mutable_data<float>();
  auto w = p.w.mutable_data<float>();
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = rx.uniform(i);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = rw.uniform(i);
  if (data == "noise") return;
  if (data == "ones") {
    for (float& v : x) v = 1;
    for (float& v : w) v = 0.1F;
  } else if (data == "cancelling") {
    for (std::int64_t c = 1; c < channels; c += 2)
      for (std::int64_t i = 0; i < plane; ++i) {
        float& odd = x[static_cast<std::size_t>(c * plane + i)];
        odd = -x[static_cast<std::size_t>((c - 1) * plane + i)] * (1 + odd * 0x1p-12F);
      }
    const std::int64_t filters = p.transposed() ? ws[1] : ws[0];
    const auto weight = [&](std::int64_t o, std::int64_t c, std::int64_t i) -> float& {
      const std::int64_t row = p.transposed() ? c * filters + o : o * channels + c;
      return w[static_cast<std::size_t>(row * taps + i)];
    };
    for (std::int64_t o = 0; o < filters; ++o)
      for (std::int64_t c = 1; c < channels; c += 2)
        for (std::int64_t i = 0; i < taps; ++i) weight(o, c, i) = weight(o, c - 1, i);
  } else if (data == "scales") {
    for (std::int64_t c = 0; c < channels; ++c) {
      const float scale = static_cast<float>(__builtin_ldexp(1, static_cast<int>(c * 7 % 25) - 12));
      for (std::int64_t i = 0; i < plane; ++i) x[static_cast<std::size_t>(c * plane + i)] *= scale;
    }
  } else if (data == "image") {
    const Image image = read_image(q);
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t i = 0; i < xs[2]; ++i)
        for (std::int64_t j = 0; j < xs[3]; ++j) {
          const std::int64_t at =
              (i * image.height / xs[2] * image.width + j * image.width / xs[3]) * image.colours +
              c % image.colours;
          x[static_cast<std::size_t>(c * plane + i * xs[3] + j)] =
              static_cast<float>(image.pixels[static_cast<std::size_t>(at)] / 255);
        }
  } else {
    throw usage_error("data: '{}' is not one of noise, ones, cancelling, scales, image", data);
  }
}

// A field that no question has would be left out of the answer without a word.
void check_fields(const json& q) {
  constexpr std::string_view kFields[] = {
      "do",     "at",  "values",   "form", "channels", "height", "width",   "filters", "kernel",
      "stride", "pad", "dilation", "data", "seed",     "image",  "factors", "contract"};
  for (const auto& [name, value] : q.items())
    // Not std::ranges::find: the compiler of the browser's build has none.
    if (std::find(std::begin(kFields), std::end(kFields), name) == std::end(kFields))
      throw usage_error("{}: no question has this field; the fields are {}", name,
                        fmt::join(kFields, ", "));
}

DType factors_of(const json& q) {
  const std::string format = word(q, "factors", "f32");
  for (const DType known : {DType::f32, DType::bf16, DType::f16})
    if (format == name(known)) return known;
  throw usage_error("factors: '{}' is not one of f32, bf16, f16", format);
}

bool is_transposed(const json& q) {
  const std::string form = word(q, "form", "conv");
  if (form != "conv" && form != "transposed")
    throw usage_error("form: '{}' is not one of conv, transposed", form);
  return form == "transposed";
}

void round_factors(ConvProblem& p) {
  if (p.factors == DType::f32) return;
  for (Tensor* t : {&p.x, &p.w})
    for (float& v : t->mutable_data<float>())
      v = static_cast<float>(round_to(static_cast<double>(v), p.factors));
}

}  // namespace

ConvProblem read_problem(const json& q, std::int64_t most_products) {
  if (!q.is_object()) throw usage_error("a question is one JSON object");
  check_fields(q);
  const std::int64_t c = extent(q, "channels", 3, 1, kMostExtent),
                     h = extent(q, "height", 16, 1, kMostExtent),
                     w = extent(q, "width", 16, 1, kMostExtent),
                     o = extent(q, "filters", 1, 1, kMostFilters),
                     k = extent(q, "kernel", 3, 1, kMostKernel),
                     stride = extent(q, "stride", 1, 1, 8), pad = extent(q, "pad", 1, 0, 16),
                     dilation = extent(q, "dilation", 1, 1, 8), reach = (k - 1) * dilation + 1;
  const bool transposed = is_transposed(q);
  if (!transposed && (reach > h + 2 * pad || reach > w + 2 * pad))
    throw usage_error(
        "kernel: {} by {}{} is larger than the padded input of {} by {}; take a "
        "smaller kernel{} or more padding",
        k, k, dilation == 1 ? "" : fmt::format(", spread over {} by dilation {},", reach, dilation),
        h + 2 * pad, w + 2 * pad, dilation == 1 ? "" : ", less dilation");
  if (transposed && std::min(h, w) * stride - stride + reach <= 2 * pad)
    throw usage_error("pad: {} cuts the whole output of {} by {} away; take less padding", pad,
                      (h - 1) * stride + reach, (w - 1) * stride + reach);
  const auto with_window = [&](auto params) {
    params.strides = {stride, stride};
    params.dilations = {dilation, dilation};
    params.pads_begin = params.pads_end = {pad, pad};
    return params;
  };
  ConvProblem p;
  p.x = Tensor::uninitialized(DType::f32, Shape{1, c, h, w});
  if (transposed) {
    const auto params = with_window(ConvTransposeParams{});
    p.op = &conv_transpose_op();
    p.params = params;
    p.w = Tensor::uninitialized(DType::f32, Shape{c, o, k, k});
    p.y = {DType::f32, conv_transpose_geometry(params, p.x.shape(), p.w.shape()).output_shape()};
  } else {
    const auto params = with_window(ConvParams{});
    p.op = &conv_op();
    p.params = params;
    p.w = Tensor::uninitialized(DType::f32, Shape{o, c, k, k});
    p.y = {DType::f32, conv_geometry(params, p.x.shape(), p.w.shape()).output_shape()};
  }
  const std::int64_t products = p.y.shape.numel() * c * k * k;
  if (products > most_products)
    throw usage_error(
        "{} products are beyond the {} that a page computes in seconds; take fewer "
        "channels, filters or pixels",
        products, most_products);
  p.factors = factors_of(q);
  p.contract = Contract::parse(word(q, "contract", "seq"));
  if (transposed && !p.contract.exact() &&
      Algorithm::parse(p.contract.algo).kind != Algorithm::Kind::direct)
    throw usage_error(
        "contract: algo={} is a convolution's; the transposed form is summed directly",
        p.contract.algo);
  fill(p, word(q, "data", "noise"), static_cast<std::uint64_t>(extent(q, "seed", 1, 0, 1 << 30)),
       q);
  round_factors(p);
  return p;
}

json with_contract(const json& question, const std::string& contract) {
  json other = question;
  other["contract"] = contract;
  return other;
}

}  // namespace etalon::lab
