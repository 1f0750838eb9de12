"""Losses, as torch.nn.functional has them."""
from functools import partial

import torch.nn.functional as F

from protocol import Refused
from registry import number, op


def elements(name, function, weights=False):
    @op(name)
    def build(p, node, constants):
        f = function(p)
        reduction = p.get("reduction", "mean")
        if reduction == "batchmean" and name != "kl_div_loss":
            raise Refused("PyTorch divides by the batch in kl_div only")

        def forward(x, target, weight=None):
            if weight is None:
                return f(x, target, reduction=reduction)
            if not weights:
                raise Refused("PyTorch has no weights of elements in %s" % name)
            return f(x, target, reduction=reduction, weight=weight)
        return forward


elements("mse_loss", lambda p: F.mse_loss)
elements("l1_loss", lambda p: F.l1_loss)
elements("huber_loss", lambda p: partial(F.huber_loss, delta=number(p.get("delta", 1))))
elements("smooth_l1_loss", lambda p: partial(F.smooth_l1_loss, beta=number(p.get("beta", 1))))
elements("kl_div_loss", lambda p: partial(F.kl_div, log_target=bool(p.get("log_target"))))
elements("binary_cross_entropy", lambda p: F.binary_cross_entropy, weights=True)
elements("binary_cross_entropy_with_logits",
         lambda p: F.binary_cross_entropy_with_logits, weights=True)


def labels(name, function):
    @op(name)
    def build(p, node, constants):
        reduction, ignored = p.get("reduction", "mean"), p.get("ignore_index", -100)

        if reduction == "batchmean":
            raise Refused("PyTorch divides by the batch in kl_div only")
        return lambda x, target, weight=None: function(
            x, target.long(), weight=weight, ignore_index=ignored, reduction=reduction)


labels("nll_loss", F.nll_loss)
labels("softmax_cross_entropy", F.cross_entropy)
