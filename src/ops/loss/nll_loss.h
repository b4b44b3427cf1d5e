// Shared by nll_loss and cross_entropy.
#pragma once

#include "loss/params.h"
#include "ops/op.h"

namespace mpsx::ops {

// Sums pairs [n][2] of a loss and a weight in float. `loss` (a mean or a sum, depending on the parameters) and
// `total_weight` are scalars; the latter has the loss's dtype or float.
void sum_losses(Tensor pairs, const NllParams& params, const Tensor& loss, const Tensor& total_weight);

}  // namespace mpsx::ops
