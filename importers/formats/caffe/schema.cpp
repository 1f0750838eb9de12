#include "importers/formats/caffe/schema.h"

namespace etalon::caffe {

const PbSchema& schema() {
  static const PbSchema kSchema(R"(
BlobShape dim 1 i
Filler type 1 s
BlobProto num 1 i channels 2 i height 3 i width 4 i data 5 f diff 6 f shape 7 BlobShape double_data 8 d double_diff 9 d
NetState phase 1 Phase level 2 i stage 3 s
NetParameter name 1 s state 6 NetState layers 2 V1LayerParameter input 3 s input_dim 4 i force_backward 5 i input_shape 8 BlobShape layer 100 LayerParameter
SolverState iter 1 i learned_net 2 s history 3 BlobProto current_step 4 i
enum Phase TRAIN 0 TEST 1
NetStateRule phase 1 Phase min_level 2 i max_level 3 i stage 4 s not_stage 5 s
ParamSpec name 1 s share_mode 2 i lr_mult 3 f decay_mult 4 f
TransformationParameter scale 1 f mirror 2 i crop_size 3 i mean_file 4 s mean_value 5 f
enum PoolMethod MAX 0 AVE 1 STOCHASTIC 2
enum RoundMode CEIL 0 FLOOR 1
enum NormRegion ACROSS_CHANNELS 0 WITHIN_CHANNEL 1
enum EltwiseOp PROD 0 SUM 1 MAX 2
enum CodeType CORNER 1 CENTER_SIZE 2 CORNER_SIZE 3
enum ReductionOp SUM 1 ASUM 2 SUMSQ 3 MEAN 4
LayerParameter name 1 s type 2 s bottom 3 s top 4 s param 6 ParamSpec blobs 7 BlobProto include 8 NetStateRule exclude 9 NetStateRule phase 10 Phase transform_param 100 TransformationParameter argmax_param 103 ArgMaxParameter concat_param 104 ConcatParameter convolution_param 106 ConvolutionParameter data_param 107 DataParameter image_data_param 115 ImageDataParameter window_data_param 129 DataParameter python_param 130 PythonParameter roi_pooling_param 8266711 ROIPoolingParameter shuffle_channel_param 164 ShuffleChannelParameter interp_param 100001 InterpParameter upsample_param 100002 UpsampleParameter bn_param 100003 BNParameter dummy_data_param 109 DummyDataParameter eltwise_param 110 EltwiseParameter exp_param 111 ExpParameter inner_product_param 117 InnerProductParameter lrn_param 118 LRNParameter memory_data_param 119 MemoryDataParameter mvn_param 120 MVNParameter pooling_param 121 PoolingParameter power_param 122 PowerParameter relu_param 123 ReLUParameter softmax_param 125 SoftmaxParameter slice_param 126 SliceParameter threshold_param 128 ThresholdParameter spp_param 132 SPPParameter prelu_param 131 PReLUParameter reshape_param 133 ReshapeParameter log_param 134 ExpParameter flatten_param 135 FlattenParameter reduction_param 136 ReductionParameter embed_param 137 EmbedParameter tile_param 138 TileParameter batch_norm_param 139 BatchNormParameter elu_param 140 ELUParameter bias_param 141 ScaleParameter scale_param 142 ScaleParameter input_param 143 InputParameter crop_param 144 CropParameter parameter_param 145 InputParameter recurrent_param 146 RecurrentParameter swish_param 147 SwishParameter clip_param 148 ClipParameter permute_param 202 PermuteParameter prior_box_param 203 PriorBoxParameter detection_output_param 204 DetectionOutputParameter norm_param 206 NormalizeParameter
enum V1LayerType NONE 0 Accuracy 1 BNLL 2 Concat 3 Convolution 4 Data 5 Dropout 6 EuclideanLoss 7 Flatten 8 HDF5Data 9 HDF5Output 10 Im2col 11 ImageData 12 InfogainLoss 13 InnerProduct 14 LRN 15 MultinomialLogisticLoss 16 Pooling 17 ReLU 18 Sigmoid 19 Softmax 20 SoftmaxWithLoss 21 Split 22 TanH 23 WindowData 24 Eltwise 25 Power 26 SigmoidCrossEntropyLoss 27 HingeLoss 28 MemoryData 29 ArgMax 30 Threshold 31 DummyData 32 Slice 33 MVN 34 AbsVal 35 Silence 36 ContrastiveLoss 37 Exp 38 Deconvolution 39 ACCURACY 1 CONCAT 3 CONVOLUTION 4 DATA 5 DROPOUT 6 EUCLIDEAN_LOSS 7 FLATTEN 8 HDF5_DATA 9 HDF5_OUTPUT 10 IM2COL 11 IMAGE_DATA 12 INFOGAIN_LOSS 13 INNER_PRODUCT 14 MULTINOMIAL_LOGISTIC_LOSS 16 POOLING 17 RELU 18 SIGMOID 19 SOFTMAX 20 SOFTMAX_LOSS 21 SPLIT 22 TANH 23 WINDOW_DATA 24 ELTWISE 25 POWER 26 SIGMOID_CROSS_ENTROPY_LOSS 27 HINGE_LOSS 28 MEMORY_DATA 29 ARGMAX 30 THRESHOLD 31 DUMMY_DATA 32 SLICE 33 ABSVAL 35 SILENCE 36 CONTRASTIVE_LOSS 37 EXP 38 DECONVOLUTION 39
V1LayerParameter layer 1 V0LayerParameter bottom 2 s top 3 s name 4 s type 5 V1LayerType blobs 6 BlobProto concat_param 9 ConcatParameter convolution_param 10 ConvolutionParameter data_param 11 DataParameter image_data_param 15 ImageDataParameter window_data_param 20 DataParameter pooling_param 19 PoolingParameter lrn_param 18 LRNParameter power_param 21 PowerParameter memory_data_param 22 MemoryDataParameter argmax_param 23 ArgMaxParameter eltwise_param 24 EltwiseParameter threshold_param 25 ThresholdParameter dummy_data_param 26 DummyDataParameter inner_product_param 17 InnerProductParameter relu_param 30 ReLUParameter slice_param 31 SliceParameter include 32 NetStateRule exclude 33 NetStateRule mvn_param 34 MVNParameter transform_param 36 TransformationParameter softmax_param 39 SoftmaxParameter exp_param 41 ExpParameter param 1001 s
V0LayerParameter name 1 s type 2 s num_output 3 i biasterm 4 i pad 7 i kernelsize 8 i group 9 i stride 10 i pool 11 PoolMethod dropout_ratio 12 f local_size 13 i alpha 14 f beta 15 f source 16 s scale 17 f meanfile 18 s batchsize 19 i cropsize 20 i mirror 21 i k 22 f blobs 50 BlobProto concat_dim 65 i
!ConvolutionParameter num_output 1 i bias_term 2 i pad 3 i kernel_size 4 i group 5 i stride 6 i pad_h 9 i pad_w 10 i kernel_h 11 i kernel_w 12 i stride_h 13 i stride_w 14 i axis 16 i dilation 18 i weight_filler 7 Filler bias_filler 8 Filler engine 15 s force_nd_im2col 17 i
!PoolingParameter pool 1 PoolMethod kernel_size 2 i stride 3 i pad 4 i kernel_h 5 i kernel_w 6 i stride_h 7 i stride_w 8 i pad_h 9 i pad_w 10 i global_pooling 12 i round_mode 13 RoundMode engine 11 s ceil_mode 1000 i
!InnerProductParameter num_output 1 i bias_term 2 i axis 5 i transpose 6 i weight_filler 3 Filler bias_filler 4 Filler
!LRNParameter local_size 1 i alpha 2 f beta 3 f norm_region 4 NormRegion k 5 f engine 6 s
!ConcatParameter concat_dim 1 i axis 2 i
!EltwiseParameter operation 1 EltwiseOp coeff 2 f stable_prod_grad 3 i
!ReLUParameter negative_slope 1 f engine 2 s
!PowerParameter power 1 f scale 2 f shift 3 f
!ExpParameter base 1 f scale 2 f shift 3 f
!SoftmaxParameter axis 2 i engine 1 s
!SliceParameter slice_dim 1 i slice_point 2 i axis 3 i
!ThresholdParameter threshold 1 f
!PReLUParameter channel_shared 2 i filler 1 Filler
!ReshapeParameter shape 1 BlobShape axis 2 i num_axes 3 i
!FlattenParameter axis 1 i end_axis 2 i
!ReductionParameter operation 1 ReductionOp axis 2 i coeff 3 f
!EmbedParameter num_output 1 i input_dim 2 i bias_term 3 i weight_filler 4 Filler bias_filler 5 Filler
!TileParameter axis 1 i tiles 2 i
!BatchNormParameter use_global_stats 1 i moving_average_fraction 2 f eps 3 f
!ELUParameter alpha 1 f
!ScaleParameter axis 1 i num_axes 2 i bias_term 4 i filler 3 Filler bias_filler 5 Filler
InputParameter shape 1 BlobShape
!CropParameter axis 1 i offset 2 i
!RecurrentParameter num_output 1 i weight_filler 2 Filler bias_filler 3 Filler debug_info 4 i expose_hidden 5 i
!SwishParameter beta 1 f
!ClipParameter min 1 f max 2 f
!PermuteParameter order 1 i
!PriorBoxParameter min_size 1 f max_size 2 f aspect_ratio 3 f flip 4 i clip 5 i variance 6 f img_size 7 i img_h 8 i img_w 9 i step 10 f step_h 11 f step_w 12 f offset 13 f
!NonMaximumSuppressionParameter nms_threshold 1 f top_k 2 i eta 3 f
SaveOutputParameter output_directory 1 s
!DetectionOutputParameter num_classes 1 i share_location 2 i background_label_id 3 i nms_param 4 NonMaximumSuppressionParameter save_output_param 5 SaveOutputParameter code_type 6 CodeType keep_top_k 7 i variance_encoded_in_target 8 i confidence_threshold 9 f visualize 10 i visualize_threshold 11 f save_file 12 s
!NormalizeParameter across_spatial 1 i channel_shared 3 i eps 4 f scale_filler 2 Filler
!ArgMaxParameter out_max_val 1 i top_k 2 i axis 3 i
!SPPParameter pyramid_height 1 i pool 2 PoolMethod engine 6 s
!MVNParameter normalize_variance 1 i across_channels 2 i eps 3 f
DataParameter batch_size 4 i crop_size 5 i
ImageDataParameter batch_size 4 i crop_size 5 i new_height 9 i new_width 10 i is_color 11 i
!ShuffleChannelParameter group 1 i
!InterpParameter height 1 i width 2 i zoom_factor 3 i shrink_factor 4 i pad_beg 5 i pad_end 6 i
!UpsampleParameter scale 1 i
!BNParameter slope_filler 1 Filler bias_filler 2 Filler momentum 3 f eps 4 f frozen 5 i engine 6 s
!ROIPoolingParameter pooled_h 1 i pooled_w 2 i spatial_scale 3 f
PythonParameter module 1 s layer 2 s
MemoryDataParameter batch_size 1 i channels 2 i height 3 i width 4 i
DummyDataParameter num 2 i channels 3 i height 4 i width 5 i shape 6 BlobShape
)");
  return kSchema;
}

}  // namespace etalon::caffe
