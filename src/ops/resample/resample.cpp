#include "ops/resample/resample.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/launch_table.h"
#include "resample/params.h"

namespace mpsx::ops {
namespace {

uint32_t length(int64_t n) {
  TORCH_CHECK(n <= INT32_MAX, "interpolation, padding and pooling: expected sizes below 2^31, got ", n);
  return uint32_t(n);
}

// Packs the starts, indices and weights into a single table.
LaunchTable table_of(const Taps& taps, const Tensor& like) {
  static_assert(sizeof(float) == sizeof(int32_t));
  const size_t count = taps.indices().size();
  std::vector<int32_t> table(taps.starts());
  table.insert(table.end(), taps.indices().begin(), taps.indices().end());
  table.resize(table.size() + count);
  if (count > 0) std::memcpy(table.data() + table.size() - count, taps.weights().data(), count * sizeof(float));
  return {std::move(table), like};
}

// Packs the indices and weights if all elements have the same number of taps: the first tap of every element, then the
// second tap of every element, and so on.
LaunchTable even_table_of(const Taps& taps, const Tensor& like) {
  const size_t count = taps.indices().size(), out = size_t(taps.out()), each = count / out;
  std::vector<int32_t> table(2 * count);
  for (size_t o = 0; o < out; ++o)
    for (size_t k = 0; k < each; ++k) {
      table[k * out + o] = taps.indices()[o * each + k];
      std::memcpy(&table[count + k * out + o], &taps.weights()[o * each + k], sizeof(float));
    }
  return {std::move(table), like};
}

// The products of the sizes before and after dimension `dim` in memory order. In channels_last format, dimension 1 is
// stored last.
struct Extent {
  int64_t outer = 1, inner = 1;
  Extent(at::IntArrayRef sizes, int64_t dim, bool channels_last) {
    const auto dims = int64_t(sizes.size());
    const auto memory_dim = [&](int64_t d) { return !channels_last || d == 0 ? d : (d == 1 ? dims - 1 : d - 1); };
    for (int64_t d = 0; d < dims; ++d)
      if (d != dim) (memory_dim(d) < memory_dim(dim) ? outer : inner) *= sizes[size_t(d)];
  }
};

void run_step(const Tensor& in, const Resampling& step, const Tensor& out, bool channels_last) {
  static const KernelSet planes("resample_planes"), rows("resample_rows");
  const Extent e(in.sizes(), step.dim, channels_last);
  if (out.numel() == 0) return;
  static const KernelSet one_tap("resample_rows_1"), two_taps("resample_rows_2");
  if (const int64_t each = e.inner == 1 ? step.taps.each() : 0; each == 1 || each == 2) {
    const LaunchTable table = even_table_of(step.taps, in);
    const int32_t* indices = table.data();
    const ResampleParams p{length(in.size(step.dim)), length(out.size(step.dim)), 1};
    Launch((each == 1 ? one_tap : two_taps).get(tag_of(in), tag_of(out)))
        .outputs(out)
        .inputs(in)
        .pointer(indices)
        .pointer(indices + step.taps.indices().size())
        .bytes(p)
        .threads(p.out, length(e.outer))
        .work(uint64_t(each))
        .run();
    return;
  }
  const LaunchTable table = table_of(step.taps, in);
  const int32_t* starts = table.data();
  const int32_t* indices = starts + step.taps.starts().size();
  const ResampleParams p{length(in.size(step.dim)), length(out.size(step.dim)), length(e.inner)};
  const bool innermost = e.inner == 1;
  const uint64_t taps = 1 + step.taps.indices().size() / p.out;
  Launch launch((innermost ? rows : planes).get(tag_of(in), tag_of(out)));
  launch.outputs(out)
      .inputs(in)
      .pointer(starts)
      .pointer(indices)
      .pointer(indices + step.taps.indices().size())
      .bytes(p);
  if (innermost) {
    launch.threads(p.out, length(e.outer)).work(taps);
  } else {
    launch.threads(ceil_div(p.inner, kResampleTile), p.out, length(e.outer)).work(taps * kResampleTile);
  }
  launch.run();
}

}  // namespace

int64_t Taps::each() const {
  const int64_t count = out() > 0 ? starts_[1] : 0;
  for (int64_t i = 0; i < out(); ++i)
    if (starts_[size_t(i) + 1] - starts_[size_t(i)] != count) return 0;
  return count;
}

bool Taps::identity() const {
  if (out() != in_ || int64_t(indices_.size()) != in_) return false;
  for (int64_t i = 0; i < in_; ++i)
    if (starts_[size_t(i)] != i || indices_[size_t(i)] != i || weights_[size_t(i)] != 1) return false;
  return true;
}

void Taps::round_for_bytes() {
  // Merge repeated taps at the borders.
  size_t kept = 0;
  for (size_t o = 0; o + 1 < starts_.size(); ++o) {
    const auto begin = size_t(starts_[o]), end = size_t(starts_[o + 1]), first = kept;
    starts_[o] = int32_t(first);
    for (size_t k = begin; k < end; ++k) {
      if (kept > first && indices_[kept - 1] == indices_[k]) {
        weights_[kept - 1] += weights_[k];
        continue;
      }
      indices_[kept] = indices_[k];
      weights_[kept++] = weights_[k];
    }
  }
  starts_.back() = int32_t(kept);
  indices_.resize(kept);
  weights_.resize(kept);
  float largest = 0;
  for (const float w : weights_) largest = std::max(largest, w);
  int bits = 0;
  while (bits < 22 && int(0.5 + double(largest) * (1 << (bits + 1))) < 1 << 15) ++bits;
  const auto unit = float(1 << bits);
  for (float& w : weights_) w = std::round(w * unit) / unit;
}

Taps Taps::transposed() const {
  Taps result(out());
  result.starts_.assign(size_t(in_) + 1, 0);
  for (const int32_t index : indices_) ++result.starts_[size_t(index) + 1];
  for (size_t i = 1; i < result.starts_.size(); ++i) result.starts_[i] += result.starts_[i - 1];
  result.indices_.resize(indices_.size());
  result.weights_.resize(indices_.size());
  std::vector<int32_t> next(result.starts_.begin(), result.starts_.end() - 1);
  for (int64_t o = 0; o < out(); ++o)
    for (int32_t k = starts_[size_t(o)]; k < starts_[size_t(o) + 1]; ++k) {
      const auto at = size_t(next[size_t(indices_[size_t(k)])]++);
      result.indices_[at] = int32_t(o);
      result.weights_[at] = weights_[size_t(k)];
    }
  return result;
}

void resample(const Tensor& in, std::vector<Resampling> steps, const Tensor& out) {
  steps.erase(std::remove_if(steps.begin(), steps.end(), [](const Resampling& s) { return s.taps.identity(); }),
              steps.end());
  if (steps.empty()) {
    out.copy_(in);
    return;
  }
  const auto format = out.suggest_memory_format();
  const bool channels_last = format != at::MemoryFormat::Contiguous;
  // First run the steps that shrink a dimension, from the outermost dimension to the innermost. Then run the steps that
  // grow one, starting with the innermost dimension, because its row kernel is slower. uint8 values are rounded after
  // each step, so use the same order as PyTorch's CPU kernels.
  const bool bytes = in.scalar_type() == at::kByte;
  std::stable_sort(steps.begin(), steps.end(), [bytes](const Resampling& a, const Resampling& b) {
    if (bytes) return a.dim > b.dim;
    const bool grows_a = a.taps.out() > a.taps.in(), grows_b = b.taps.out() > b.taps.in();
    if (grows_a != grows_b) return grows_b;
    return grows_a ? a.dim > b.dim : a.dim < b.dim;
  });
  if (bytes)
    for (Resampling& step : steps) step.taps.round_for_bytes();
  const auto between = in.options().dtype(bytes ? at::kByte : at::kFloat).memory_format(format);
  Tensor from = in.contiguous(format);
  for (size_t i = 0; i < steps.size(); ++i) {
    c10::DimVector sizes(from.sizes());
    sizes[size_t(steps[i].dim)] = steps[i].taps.out();
    const bool last = i + 1 == steps.size();
    const Tensor to = last ? out : at::empty(sizes, between);
    run_step(from, steps[i], to, channels_last);
    from = to;
  }
}

}  // namespace mpsx::ops
