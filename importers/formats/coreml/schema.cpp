// Source: the public specification of the model format (Model.proto, FeatureTypes.proto,
// NeuralNetwork.proto: field numbers).
#include "importers/formats/coreml/schema.h"

namespace etalon::coreml {

const PbSchema& schema() {
  static const PbSchema kSchema(R"(
Model specificationVersion 1 i description 2 Description pipelineClassifier 200 PipelineHolder pipelineRegressor 201 PipelineHolder pipeline 202 Pipeline neuralNetworkRegressor 303 Network neuralNetworkClassifier 403 Network neuralNetwork 500 Network mlProgram 502 Nothing
Nothing none 1000 i
Refused none 1000 i
PipelineHolder pipeline 1 Pipeline
Pipeline models 1 Model
Description input 1 Feature output 10 Feature predictedFeatureName 11 s predictedProbabilitiesName 12 s metadata 100 Metadata
Metadata userDefined 100 StringEntry
StringEntry key 1 s value 2 s
Feature name 1 s type 3 FeatureType
FeatureType imageType 4 ImageType multiArrayType 5 ArrayType isOptional 1000 i
ImageType width 1 i height 2 i colorSpace 3 i
ArrayType shape 1 i dataType 2 i
Network layers 1 Layer preprocessing 2 Nothing arrayInputShapeMapping 5 i imageInputShapeMapping 6 i labelProbabilityLayerName 200 s
Layer name 1 s input 2 s output 3 s convolution 100 Convolution pooling 120 Pooling activation 130 Activation innerProduct 140 InnerProduct batchnorm 160 BatchNorm softmax 175 Nothing lrn 180 Lrn add 230 Alpha bias 250 Bias multiply 231 Alpha flatten 301 Flatten concat 320 Concat softmaxND 950 Axis reshapeStatic 1140 ReshapeStatic unary 220 Unary average 240 Nothing scale 245 Scale max 260 Nothing min 261 Nothing loadConstant 290 LoadConstant reshape 300 Reshape permute 310 Permute split 330 Split upsample 210 Upsample padding 200 Padding copy 600 Nothing clip 660 Clip ceil 665 Nothing floor 670 Nothing sign 680 Nothing round 685 Nothing exp2 700 Nothing sin 710 Nothing cos 715 Nothing tan 720 Nothing asin 730 Nothing acos 735 Nothing atan 740 Nothing sinh 750 Nothing cosh 755 Nothing tanh 760 Nothing asinh 770 Nothing acosh 775 Nothing atanh 780 Nothing erf 790 Nothing gelu 795 Gelu modBroadcastable 865 Nothing minBroadcastable 870 Nothing maxBroadcastable 875 Nothing addBroadcastable 880 Nothing powBroadcastable 885 Nothing divideBroadcastable 890 Nothing multiplyBroadcastable 900 Nothing subtractBroadcastable 905 Nothing tile 920 Tile stack 925 Axis gather 930 Gather splitND 975 SplitND concatND 980 ConcatND transpose 985 Transpose sliceStatic 995 SliceStatic batchedMatmul 1045 Matmul loadConstantND 1070 LoadConstant squeeze 1120 AxesND expandDims 1125 AxesND flattenTo2D 1130 Axis reduceL1 1250 ReduceND reduceL2 1255 ReduceND reduceMax 1260 ReduceND reduceMin 1265 ReduceND reduceSum 1270 ReduceND reduceProd 1275 ReduceND reduceMean 1280 ReduceND reduceLogSum 1285 ReduceND reduceSumSquare 1290 ReduceND reduceLogSumExp 1295 ReduceND layerNormalization 1350 LayerNorm clampedReLU 1460 Alpha2 embedding 150 Embedding mvn 165 Mvn l2normalize 170 L2Normalize crop 190 Crop resizeBilinear 211 ResizeBilinear cropResize 212 CropResize dot 270 Dot reduce 280 Reduce sequenceRepeat 340 SequenceRepeat reorganizeData 345 ReorganizeData slice 350 Slice simpleRecurrent 400 SimpleRecurrent gru 410 Gru uniDirectionalLSTM 420 UniLstm biDirectionalLSTM 430 BiLstm custom 500 Refused branch 605 Branch loop 615 Loop loopBreak 620 Refused loopContinue 625 Refused rangeStatic 635 RangeStatic rangeDynamic 640 RangeDynamic equal 815 Alpha notEqual 820 Alpha lessThan 825 SecondAlpha lessEqual 827 SecondAlpha greaterThan 830 SecondAlpha greaterEqual 832 SecondAlpha logicalOr 840 Nothing logicalXor 845 Nothing logicalNot 850 Nothing logicalAnd 855 Nothing floorDivBroadcastable 895 Nothing scatter 935 Scatter gatherND 940 Nothing scatterND 945 ScatterND gatherAlongAxis 952 Axis scatterAlongAxis 954 Scatter reverse 960 Reverse reverseSeq 965 ReverseSeq sliceDynamic 1000 SliceDynamic slidingWindows 1005 SlidingWindows topK 1015 TopK argMin 1020 Arg argMax 1025 Arg embeddingND 1040 EmbeddingND getShape 1065 Nothing fillLike 1080 Fill fillStatic 1085 Fill fillDynamic 1090 Fill broadcastToLike 1100 Nothing broadcastToStatic 1105 Target broadcastToDynamic 1110 Nothing reshapeLike 1135 Nothing reshapeDynamic 1145 Nothing rankPreservingReshape 1150 Target constantPad 1155 ConstantPad randomNormalLike 1170 Refused randomNormalStatic 1175 Refused randomNormalDynamic 1180 Refused randomUniformLike 1190 Refused randomUniformStatic 1195 Refused randomUniformDynamic 1200 Refused randomBernoulliLike 1210 Refused randomBernoulliStatic 1215 Refused randomBernoulliDynamic 1220 Refused categoricalDistribution 1230 Refused whereNonZero 1313 Nothing matrixBandPart 1315 Band lowerTriangular 1320 Triangle upperTriangular 1325 Triangle whereBroadcastable 1330 Nothing NonMaximumSuppression 1400 NonMaximumSuppression oneHot 1450 OneHot cumSum 1455 CumSum argSort 1461 ArgSort pooling3d 1465 Pooling3d globalPooling3d 1466 GlobalPooling3d sliceBySize 1470 SliceBySize convolution3d 1471 Convolution3d
!Unary type 1 i alpha 2 f epsilon 3 f shift 4 f scale 5 f
!Scale shapeScale 1 i scale 2 Weights hasBias 3 i shapeBias 4 i bias 5 Weights
LoadConstant shape 1 i data 2 Weights
!Reshape targetShape 1 i mode 2 i
!Permute axis 1 i
!Transpose axes 1 i
!AxesND axes 1 i squeezeAll 2 i
!Split nOutputs 1 i
!Gelu mode 1 i
!Upsample scalingFactor 1 i mode 5 i linearUpsampleMode 6 i fractionalScalingFactor 7 f
!Padding constant 1 PadValue reflection 2 Nothing replication 3 Nothing paddingAmounts 10 Borders
PadValue value 1 f
!Clip minVal 1 f maxVal 2 f
!Tile reps 1 i
!SplitND axis 1 i numSplits 2 i splitSizes 3 i
!ConcatND axis 1 i interleave 2 i
!SliceStatic beginIds 1 i beginMasks 2 i endIds 3 i endMasks 4 i strides 5 i squeezeMasks 6 i
!Matmul transposeA 1 i transposeB 2 i weightMatrixFirstDimension 5 i weightMatrixSecondDimension 6 i hasBias 7 i weights 8 Weights bias 9 Weights
!ReduceND axes 1 i keepDims 2 i reduceAll 3 i
!LayerNorm normalizedShape 1 i eps 2 f gamma 3 Weights beta 4 Weights
!Bias shape 1 i bias 2 Weights
!Axis axis 1 i
!Gather axis 1 i validateIndices 2 i
!Concat sequenceConcat 100 i
!Alpha alpha 1 f
!Flatten mode 1 i
!ReshapeStatic targetShape 1 i
!Lrn alpha 1 f beta 2 f localSize 3 i k 4 f
Weights floatValue 1 f float16Value 2 s rawValue 30 s quantization 40 Quantization
!Quantization numberOfBits 1 i linearQuantization 101 Linear lookupTableQuantization 102 Table
Linear scale 1 f bias 2 f
Table floatValue 1 f
Border startEdgeSize 1 i endEdgeSize 2 i
Borders borderAmounts 10 Border
Valid paddingAmounts 1 Borders
Same asymmetryMode 1 i
!LastPixel paddingAmounts 10 i
!Convolution outputChannels 1 i kernelChannels 2 i nGroups 10 i kernelSize 20 i stride 30 i dilationFactor 40 i valid 50 Valid same 51 Same isDeconvolution 60 i hasBias 70 i weights 90 Weights bias 91 Weights outputShape 100 i
!Pooling type 1 i kernelSize 10 i stride 20 i valid 30 Valid same 31 Same includeLastPixel 32 LastPixel avgPoolExcludePadding 50 i globalPooling 60 i
!InnerProduct inputChannels 1 i outputChannels 2 i hasBias 10 i weights 20 Weights bias 21 Weights
!BatchNorm channels 1 i computeMeanVar 5 i instanceNormalization 6 i epsilon 10 f gamma 15 Weights beta 16 Weights mean 17 Weights variance 18 Weights
!Activation linear 5 Alpha2 ReLU 10 Nothing leakyReLU 15 Alpha2 PReLU 25 PRelu tanh 30 Nothing sigmoid 40 Nothing sigmoidHard 41 Alpha2 ELU 50 Alpha2 softsign 60 Nothing softplus 70 Nothing thresholdedReLU 20 Alpha scaledTanh 31 Alpha2 parametricSoftplus 71 ParametricSoftplus
!Alpha2 alpha 1 f beta 2 f
!Branch ifBranch 1 Network elseBranch 2 Network
!Loop maxLoopIterations 1 i conditionVar 2 s conditionNetwork 3 Network bodyNetwork 4 Network
!Embedding inputDim 1 i outputChannels 2 i hasBias 10 i weights 20 Weights bias 21 Weights
!EmbeddingND vocabSize 1 i embeddingSize 2 i hasBias 3 i weights 20 Weights bias 21 Weights
!L2Normalize epsilon 1 f
!Mvn acrossChannels 1 i normalizeVariance 2 i epsilon 3 f
!Crop cropAmounts 1 Borders offset 5 i
!ResizeBilinear targetSize 1 i mode 2 Sampling
Sampling samplingMethod 1 i
!CropResize targetSize 1 i normalizedCoordinates 2 i mode 3 Sampling boxIndicesMode 4 BoxMode spatialScale 5 f
BoxMode boxMode 1 i
!NonMaximumSuppression iouThreshold 1 f scoreThreshold 2 f maxBoxes 3 i perClassSuppression 4 i
!Dot cosineSimilarity 1 i
!Reduce mode 1 i epsilon 2 f axis 3 i
!SequenceRepeat nRepetitions 1 i
!ReorganizeData mode 1 i blockSize 2 i
!Slice startIndex 1 i endIndex 2 i stride 3 i axis 4 i
!SimpleRecurrent inputVectorSize 1 i outputVectorSize 2 i activation 10 Activation sequenceOutput 15 i hasBiasVector 20 i weightMatrix 30 Weights recursionMatrix 31 Weights biasVector 32 Weights reverseInput 100 i
!Gru inputVectorSize 1 i outputVectorSize 2 i activations 10 Activation sequenceOutput 15 i hasBiasVectors 20 i updateGateWeightMatrix 30 Weights resetGateWeightMatrix 31 Weights outputGateWeightMatrix 32 Weights updateGateRecursionMatrix 50 Weights resetGateRecursionMatrix 51 Weights outputGateRecursionMatrix 52 Weights updateGateBiasVector 70 Weights resetGateBiasVector 71 Weights outputGateBiasVector 72 Weights reverseInput 100 i
!UniLstm inputVectorSize 1 i outputVectorSize 2 i activations 10 Activation params 15 LstmParams weightParams 20 LstmWeights reverseInput 100 i
!BiLstm inputVectorSize 1 i outputVectorSize 2 i activationsForwardLSTM 10 Activation activationsBackwardLSTM 11 Activation params 15 LstmParams weightParams 20 LstmWeights
!LstmParams sequenceOutput 10 i hasBiasVectors 20 i forgetBias 30 i hasPeepholeVectors 40 i coupledInputAndForgetGate 50 i cellClipThreshold 60 f
!LstmWeights inputGateWeightMatrix 1 Weights forgetGateWeightMatrix 2 Weights blockInputWeightMatrix 3 Weights outputGateWeightMatrix 4 Weights inputGateRecursionMatrix 20 Weights forgetGateRecursionMatrix 21 Weights blockInputRecursionMatrix 22 Weights outputGateRecursionMatrix 23 Weights inputGateBiasVector 40 Weights forgetGateBiasVector 41 Weights blockInputBiasVector 42 Weights outputGateBiasVector 43 Weights inputGatePeepholeVector 60 Weights forgetGatePeepholeVector 61 Weights outputGatePeepholeVector 62 Weights
!RangeStatic endValue 1 f startValue 2 f stepSizeValue 3 f
!RangeDynamic startValue 2 f stepSizeValue 3 f
!SecondAlpha alpha 2 f
!Scatter axis 1 i mode 2 i
!ScatterND mode 1 i
!Reverse reverseDim 1 i
!ReverseSeq batchAxis 1 i sequenceAxis 2 i
!SliceDynamic beginMasks 2 i endIds 3 i endMasks 4 i strides 5 i squeezeMasks 6 i
!SliceBySize size 2 i axis 3 i
!SlidingWindows axis 1 i windowSize 2 i step 3 i
!TopK axis 1 i K 2 i useBottomK 3 i
!Arg axis 1 i removeDim 2 i
!ArgSort axis 1 i descending 2 i
!Fill value 1 f targetShape 2 i
!Target targetShape 1 i
!ConstantPad value 1 f padAmounts 2 i padToGivenOutputSizeMode 3 i
!Band numLower 1 i numUpper 2 i
!Triangle k 1 i
!OneHot oneHotVectorSize 1 i axis 2 i onValue 3 f offValue 4 f
!CumSum axis 1 i excludeFinalSum 2 i reverse 3 i
!Pooling3d type 1 i kernelDepth 2 i kernelHeight 3 i kernelWidth 4 i strideDepth 5 i strideHeight 6 i strideWidth 7 i paddingType 15 i customPaddingFront 8 i customPaddingBack 9 i customPaddingTop 10 i customPaddingBottom 11 i customPaddingLeft 12 i customPaddingRight 13 i countExcludePadding 14 i
!GlobalPooling3d type 1 i
!Convolution3d outputChannels 1 i inputChannels 2 i nGroups 10 i kernelDepth 20 i kernelHeight 21 i kernelWidth 22 i strideDepth 31 i strideHeight 32 i strideWidth 33 i dilationDepth 40 i dilationHeight 41 i dilationWidth 42 i hasBias 50 i weights 60 Weights bias 61 Weights paddingType 70 i customPaddingFront 80 i customPaddingBack 81 i customPaddingTop 82 i customPaddingBottom 83 i customPaddingLeft 84 i customPaddingRight 85 i isDeconvolution 86 i outputShape 87 i
PRelu alpha 1 Weights
ParametricSoftplus alpha 1 Weights beta 2 Weights
)");
  return kSchema;
}

}  // namespace etalon::coreml
