// Shared by nll_loss and cross_entropy.
#pragma once

#include "loss/params.h"
#include "ops/op.h"

namespace mpsx::ops {

// Adds up pairs [n][2] of a loss and a weight in float. `loss` (a mean or a sum, as the parameters say) and
// `total_weight` are scalars, the latter of the loss's type or float.
void add_up_losses(Tensor pairs, const NllParams& params, const Tensor& loss, const Tensor& total_weight);

}  // namespace mpsx::ops
