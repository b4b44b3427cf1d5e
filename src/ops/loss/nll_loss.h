// The reduction that nll_loss and cross_entropy share.
#pragma once

#include "loss/params.h"
#include "ops/op.h"

namespace mpsx::ops {

// Sums (loss, weight) pairs, of shape [n][2], in float. Writes two scalars. `loss` is a mean or a sum, depending on
// `params`. `total_weight` has the dtype of the loss, or float.
void sum_losses(Tensor pairs, const NllParams& params, const Tensor& loss, const Tensor& total_weight);

}  // namespace mpsx::ops
