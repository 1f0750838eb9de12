// The networks that table.cpp lists, one file each.
#pragma once

#include "engine/models/models.h"

namespace etalon {

ModelRow lenet_model();
ModelRow alexnet_model();
ModelRow alexnet_plain_model();
ModelRow vgg_a_model();
ModelRow resnet50_model();
ModelRow mobilenet_model();
ModelRow lstm_model();

}  // namespace etalon
