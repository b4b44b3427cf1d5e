// The reduction shared by nll_loss and cross_entropy.
#pragma once

#include "loss/params.h"
#include "ops/op.h"

namespace mpsx::ops {

// Sums the (loss, weight) pairs, of shape [n][2], in float. Writes two scalars: `loss`, a mean or a sum depending on
// `params`, and `total_weight`, which has the loss's dtype or float.
void sum_losses(Tensor pairs, const NllParams& params, const Tensor& loss, const Tensor& total_weight);

}  // namespace mpsx::ops
