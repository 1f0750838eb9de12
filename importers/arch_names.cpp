#include "importers/arch_names.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>
#include <vector>

namespace etalon {
namespace {

// "stage2.1.conv1_bn.scale" as its parts between dots.
std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
    parts.push_back(name.substr(0, dot));
    name.remove_prefix(dot + 1);
  }
  parts.push_back(name);
  return parts;
}

// The number behind a prefix; -1 where there is none.
int number_behind(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return -1;
  text.remove_prefix(prefix.size());
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : -1;
}

// What torch.nn.BatchNorm2d calls a batch norm's inputs.
std::string_view batch_norm_field(std::string_view ours) {
  constexpr std::pair<std::string_view, std::string_view> kFields[] = {
      {"scale", "weight"}, {"bias", "bias"}, {"mean", "running_mean"}, {"var", "running_var"}};
  for (const auto& [own, theirs] : kFields)
    if (own == ours) return theirs;
  return "";
}

// torchvision's resnet50 ("v1.5"): layer1.0.conv1, layer1.0.bn1, layer1.0.downsample.0 and .1.
std::string torchvision_resnet(std::string_view weight) {
  const std::vector<std::string_view> p = parts_of(weight);
  if (p.size() == 2 && p[0] == "conv1") return std::string(weight);
  if (p.size() == 2 && p[0] == "conv1_bn") return fmt::format("bn1.{}", batch_norm_field(p[1]));
  if (p.size() == 2 && p[0] == "logits") return fmt::format("fc.{}", p[1]);
  if (p.size() != 4) return "";
  const int stage = number_behind(p[0], "stage"), block = number_behind(p[1], "");
  if (stage < 2 || block < 1) return "";
  const std::string at = fmt::format("layer{}.{}.", stage - 1, block - 1);
  if (p[2] == "shortcut") return fmt::format("{}downsample.0.{}", at, p[3]);
  if (p[2] == "shortcut_bn") return fmt::format("{}downsample.1.{}", at, batch_norm_field(p[3]));
  if (p[2].ends_with("_bn")) {
    const int conv = number_behind(p[2].substr(0, p[2].size() - 3), "conv");
    return conv < 1 ? "" : fmt::format("{}bn{}.{}", at, conv, batch_norm_field(p[3]));
  }
  return fmt::format("{}{}.{}", at, p[2], p[3]);
}

// torchvision's vgg11: places in two nn.Sequential, where ReLU, pools and dropout count as well.
std::string torchvision_vgg_a(std::string_view weight) {
  constexpr std::array kFeatures{0, 3, 6, 8, 11, 13, 16, 18};
  const std::vector<std::string_view> p = parts_of(weight);
  if (p.size() != 2) return "";
  if (const int conv = number_behind(p[0], "conv"); conv >= 1 && conv <= 8)
    return fmt::format("features.{}.{}", kFeatures[static_cast<std::size_t>(conv - 1)], p[1]);
  const int place = p[0] == "fc9" ? 0 : p[0] == "fc10" ? 3 : p[0] == "logits" ? 6 : -1;
  return place < 0 ? "" : fmt::format("classifier.{}.{}", place, p[1]);
}

}  // namespace

std::span<const WeightNaming> weight_namings() {
  static constexpr WeightNaming kRows[] = {
      {"resnet50", "torchvision", "pytorch", torchvision_resnet},
      {"vgg_a", "torchvision", "pytorch", torchvision_vgg_a},
  };
  return kRows;
}

}  // namespace etalon
