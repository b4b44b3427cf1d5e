#pragma once

#include "ops/operator.h"

namespace mpsx::ops {

// The forms of a launcher with results, for whoever registers them one by one (vendor::Library).
template <OperatorName NAME, auto F>
struct Forms {
  using S = detail::Signature<decltype(F)>;
  using Arguments = detail::ArgumentsOf<S>;
  using Writer = detail::Writer<NAME, F, Arguments, std::make_index_sequence<S::results>>;
  static constexpr auto functional = &Writer::functional;
  static constexpr auto out = &Writer::out;
};
// And its in-place form.
template <OperatorName NAME, auto F>
inline constexpr auto in_place_form = &detail::InPlace<NAME, F, typename Forms<NAME, F>::Arguments>::in_place;

}  // namespace mpsx::ops
