"""Batch, layer, instance and group normalisation, local response normalisation, resizing.

An epsilon arrives as the f32 that the model file stores, widened: PyTorch computes with a double.
"""
import torch
import torch.nn.functional as F

from protocol import Refused
from registry import ints, number, op


@op("batch_norm")
def batch_norm(p, node, constants):
    if p.get("training_mode") or p.get("training"):
        raise Refused("the network is run for inference, this node asks for training statistics")
    return lambda x, scale, bias, mean, var: F.batch_norm(
        x, mean, var, scale, bias, False, 0.0, number(p.get("epsilon", 1e-5)))


@op("layer_norm")
def layer_norm(p, node, constants):
    if len([n for n in node["outputs"] if n]) > 1:
        raise Refused("F.layer_norm does not give out its mean and deviation")

    def forward(x, scale=None, bias=None):
        shape = list(x.shape[p.get("axis", -1):] if p.get("axis", -1) else x.shape)
        fit = [None if t is None else t.expand(shape) for t in (scale, bias)]
        return F.layer_norm(x, shape, fit[0], fit[1], number(p.get("epsilon", 1e-5)))
    return forward


@op("instance_norm")
def instance_norm(p, node, constants):
    return lambda x, scale=None, bias=None: F.instance_norm(
        x, None, None, scale, bias, True, 0.0, number(p.get("epsilon", 1e-5)))


@op("group_norm")
def group_norm(p, node, constants):
    return lambda x, scale=None, bias=None: F.group_norm(
        x, p.get("groups", p.get("num_groups", 1)), scale, bias, number(p.get("epsilon", 1e-5)))


@op("lrn")
def lrn(p, node, constants):
    size = p["size"]
    if size % 2 == 0:
        raise Refused("PyTorch lays an even window of channels one to the left of ONNX's")
    return lambda x: F.local_response_norm(x, size, number(p.get("alpha", 1e-4)),
                                           number(p.get("beta", 0.75)),
                                           number(p.get("bias", p.get("k", 1))))


@op("lp_norm")
def lp_norm(p, node, constants):
    def forward(x):
        return F.normalize(x, p=number(p.get("p", 2)), dim=p.get("axis", -1), eps=0.0)
    return forward


@op("rms_norm")
def rms_norm(p, node, constants):
    if not hasattr(F, "rms_norm"):
        raise Refused("PyTorch %s has no rms_norm; 2.4 and later have" % torch.__version__)

    def forward(x, scale=None):
        shape = list(x.shape[p.get("axis", -1):])
        return F.rms_norm(x, shape, scale, number(p.get("epsilon", 1e-5)))
    return forward
