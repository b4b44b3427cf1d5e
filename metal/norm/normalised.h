// Shared by layer_norm and group_norm: a row less its mean, over its standard deviation.
#pragma once

#include "lib/row.h"

struct Normalised {
  float mean, rstd;
  float at(float x, Pair parameters) const { return fma((x - mean) * rstd, parameters.a, parameters.b); }
};

// Roughly the mean of a row of `n`, then its variance around that, in a pass that also finds how far it was from the
// mean.
template <typename T>
inline Normalised normalised(thread Row<Plain<T>>& row, float n, float eps, threadgroup float2* scratch, Team team,
                             GroupThread g) {
  const float2 some = team_reduce<CombineSum>(row.sample(), scratch, team, g);
  const float near = some.x / some.y / kSampleScale;
  const float2 sums = row.sums(Distance{near, 1.0f}, SquaredDistance{near, 1.0f});
  const float2 rest = team_reduce<CombineSum>(sums, scratch, team, g) / float2(n);
  const float variance = is_infinite(rest.y) ? rest.y : propagating_max(rest.y - rest.x * rest.x, 0.0f);
  return {is_infinite(near) ? near : near + rest.x, 1.0f / precise::sqrt(variance + eps)};
}
