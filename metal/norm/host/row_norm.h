// Weight and bias on the host driver, where a threadgroup is one thread. There is a separate loop for each combination
// of present and absent parameters, because the compiler does not unswitch a vectorized loop of this size.
#pragma once

template <typename W>
struct Parameters {
  device const W* weight;
  device const W* bias;
  bool has_weight, has_bias;
  uint kind() const { return (has_weight ? 1 : 0) + (has_bias ? 2 : 0); }
  template <uint KIND>
  Pair of(uint i) const {
    return {KIND & 1 ? float(weight[i]) : 1.0f, KIND & 2 ? float(bias[i]) : 0.0f};
  }
};
