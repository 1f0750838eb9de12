#include "kernels/conv/tiles.h"

#include <fmt/format.h>

#include "engine/core/error.h"

namespace etalon {
namespace {

std::int64_t padded(const WindowAxis& a) { return a.out + a.kernel - 1; }

TileAxis tile_axis(const WindowAxis& a, const Algorithm& algorithm) {
  if (a.kernel == 1) return {1, 1, a.out};
  TileAxis t;
  if (algorithm.kind == Algorithm::Kind::winograd) {
    t.size = algorithm.alpha();
  } else if (algorithm.n != 0) {
    t.size = algorithm.n;
  } else {
    while (t.size < padded(a) || t.size < 4) t.size *= 2;
  }
  t.step = t.size - a.kernel + 1;
  t.count = (a.out + t.step - 1) / t.step;
  return t;
}

}  // namespace

Refusal refuse_tiles(const Problem& problem, const Algorithm& algorithm) {
  const Contract& c = *problem.contract;
  const std::string_view kind = name(algorithm.kind);
  if (c.exact()) return "order=exact has no algorithm";
  if (c.order.kind != OrderKind::seq || c.walk != Walk{})
    return fmt::format("algo={} has its own order, so order and walk must be left as they are{}",
                       kind,
                       algorithm.kind == Algorithm::Kind::winograd
                           ? "; channels=pairwise sums over channels by halves"
                           : "");
  if (problem.inputs.size() < 2) return "the shapes of x and w decide";
  const ConvGeometry g = conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  if (g.window.spatial > 2)
    return fmt::format("algo={} is defined for one and two spatial axes, this has {}", kind,
                       g.window.spatial);
  bool tiled = false;
  for (const WindowAxis& a : g.window.axes) {
    if (a.stride != 1)
      return fmt::format(
          "algo={} computes outputs that are neighbours, so it needs stride 1, this has {}", kind,
          a.stride);
    if (a.kernel == 1) continue;
    if (a.dilation != 1)
      return fmt::format(
          "algo={} computes windows without gaps, so it needs dilation 1, this has {}", kind,
          a.dilation);
    if (algorithm.kind == Algorithm::Kind::winograd && a.kernel != algorithm.r)
      return fmt::format(
          "algo=winograd:{}/{} computes kernels of extent {} (or 1 along an axis), this has {}",
          algorithm.m, algorithm.r, algorithm.r, a.kernel);
    if (algorithm.kind == Algorithm::Kind::fft && algorithm.n != 0 && a.kernel > algorithm.n)
      return fmt::format("algo=fft:{} needs a kernel of at most that extent, this has {}",
                         algorithm.n, a.kernel);
    if (algorithm.kind == Algorithm::Kind::fft && algorithm.n == 0 && padded(a) > kMaxFft)
      return fmt::format("algo=fft:full transforms at most {} inputs along an axis, this has {}",
                         kMaxFft, padded(a));
    tiled = true;
  }
  if (!tiled) return fmt::format("algo={} needs a kernel of more than one tap, this is 1x1", kind);
  return std::nullopt;
}

ConvTiles conv_tiles(const ConvGeometry& geometry, const Algorithm& algorithm) {
  return {geometry, tile_axis(geometry.window.axes[1], algorithm),
          tile_axis(geometry.window.axes[2], algorithm)};
}

}  // namespace etalon
