#include "importers/formats/pytorch/module_recipes.h"

namespace etalon::pytorch_format {
namespace {

constexpr ModuleRecipe kRecipes[] = {
    {"alexnet.AlexNet", "", "features avgpool? :flatten classifier", ""},
    {"vgg.VGG", "", "features avgpool? :flatten classifier", ""},
    {"resnet.ResNet", "", "conv1 bn1 relu maxpool layer1 layer2 layer3 layer4 avgpool :flatten fc",
     ""},
    {"resnet.BasicBlock", "", "[ conv1 bn1 relu conv2 bn2 | downsample? ]add relu", ""},
    {"resnet.Bottleneck", "", "[ conv1 bn1 relu conv2 bn2 relu conv3 bn3 | downsample? ]add relu",
     ""},
    {"squeezenet.SqueezeNet", "", "features classifier :flatten", ""},
    {"squeezenet.Fire", "",
     "squeeze squeeze_activation [ expand1x1 expand1x1_activation | expand3x3 "
     "expand3x3_activation ]cat",
     ""},
    {"mobilenetv2.MobileNetV2", "", "features :pool1 :flatten classifier", ""},
    {"mobilenet.MobileNetV2", "", "features :pool1 :flatten classifier", ""},
    {"mobilenetv2.InvertedResidual", "use_res_connect", "[ | conv ]add", "conv"},
    {"mobilenet.InvertedResidual", "use_res_connect", "[ | conv ]add", "conv"},
    {"mobilenetv3.MobileNetV3", "", "features avgpool :flatten classifier", ""},
    {"mobilenetv3.InvertedResidual", "use_res_connect", "[ block | ]add", "block"},
    {"misc.SqueezeExcitation", "", "[ avgpool fc1 activation fc2 scale_activation | ]mul", ""},
    {"efficientnet.EfficientNet", "", "features avgpool :flatten classifier", ""},
    {"efficientnet.MBConv", "use_res_connect", "[ block | ]add", "block"},
    {"efficientnet.FusedMBConv", "use_res_connect", "[ block | ]add", "block"},
    {"densenet.DenseNet", "", "features :relu :pool1 :flatten classifier", ""},
    {"densenet._DenseBlock", "", ":dense", ""},
    {"densenet._DenseLayer", "", "norm1 relu1 conv1 norm2 relu2 conv2", ""},
    {"densenet._Transition", "", ":all", ""},
    {"googlenet.GoogLeNet", "transform_input", "",
     "conv1 maxpool1 conv2 conv3 maxpool2 inception3a inception3b maxpool3 inception4a "
     "inception4b inception4c inception4d inception4e maxpool4 inception5a inception5b avgpool "
     ":flatten fc"},
    {"googlenet.Inception", "", "[ branch1 | branch2 | branch3 | branch4 ]cat", ""},
    {"googlenet.BasicConv2d", "", "conv bn :relu", ""},
    {"inception.Inception3", "transform_input", "",
     "Conv2d_1a_3x3 Conv2d_2a_3x3 Conv2d_2b_3x3 maxpool1 Conv2d_3b_1x1 Conv2d_4a_3x3 maxpool2 "
     "Mixed_5b Mixed_5c Mixed_5d Mixed_6a Mixed_6b Mixed_6c Mixed_6d Mixed_6e Mixed_7a Mixed_7b "
     "Mixed_7c avgpool :flatten fc"},
    {"inception.BasicConv2d", "", "conv bn :relu", ""},
    {"inception.InceptionA", "",
     "[ branch1x1 | branch5x5_1 branch5x5_2 | branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3 | "
     ":avg3 branch_pool ]cat",
     ""},
    {"inception.InceptionB", "",
     "[ branch3x3 | branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3 | :max3s2 ]cat", ""},
    {"inception.InceptionC", "",
     "[ branch1x1 | branch7x7_1 branch7x7_2 branch7x7_3 | branch7x7dbl_1 branch7x7dbl_2 "
     "branch7x7dbl_3 branch7x7dbl_4 branch7x7dbl_5 | :avg3 branch_pool ]cat",
     ""},
    {"inception.InceptionD", "",
     "[ branch3x3_1 branch3x3_2 | branch7x7x3_1 branch7x7x3_2 branch7x7x3_3 branch7x7x3_4 | "
     ":max3s2 ]cat",
     ""},
    {"inception.InceptionE", "",
     "[ branch1x1 | branch3x3_1 [ branch3x3_2a | branch3x3_2b ]cat | branch3x3dbl_1 "
     "branch3x3dbl_2 [ branch3x3dbl_3a | branch3x3dbl_3b ]cat | :avg3 branch_pool ]cat",
     ""},
    {"mnasnet.MNASNet", "", "layers :mean23 classifier", ""},
    {"mnasnet._InvertedResidual", "apply_residual", "[ layers | ]add", "layers"},
    {"shufflenetv2.ShuffleNetV2", "", "conv1 maxpool stage2 stage3 stage4 conv5 :mean23 fc", ""},
    {"shufflenetv2.InvertedResidual", "stride=1", "[ :first | :second branch2 ]cat :shuffle2",
     "[ branch1 | branch2 ]cat :shuffle2"},
    {"convnext.ConvNeXt", "", "features avgpool classifier", ""},
    {"convnext.CNBlock", "", "[ block *layer_scale | ]add", ""},
    {"convnext.LayerNorm2d", "", ":norm", ""},
    {"misc.Permute", "", ":permute", ""},
    {"regnet.RegNet", "", "stem trunk_output avgpool :flatten fc", ""},
    {"regnet.ResBottleneckBlock", "", "[ proj? | f ]add activation", ""},
    {"regnet.SimpleStemIN", "", ":all", ""},
    {"regnet.AnyStage", "", ":all", ""},
    {"regnet.BottleneckTransform", "", ":all", ""},
    {"stochastic_depth.StochasticDepth", "", "", ""},
    {"misc.Conv2dNormActivation", "", ":all", ""},
    {"misc.Conv3dNormActivation", "", ":all", ""},
    {"misc.ConvNormActivation", "", ":all", ""},
    {"mobilenet.ConvBNReLU", "", ":all", ""},
    {"mobilenetv2.ConvBNReLU", "", ":all", ""},
    {"mobilenetv2.ConvBNActivation", "", ":all", ""},
};

}  // namespace

const ModuleRecipe* recipe_of(std::string_view type) {
  constexpr std::string_view kNamespace = "torchvision.";
  if (!type.starts_with(kNamespace)) return nullptr;
  for (const ModuleRecipe& r : kRecipes)
    if (type.ends_with(r.type) && type[type.size() - r.type.size() - 1] == '.') return &r;
  return nullptr;
}

}  // namespace etalon::pytorch_format
