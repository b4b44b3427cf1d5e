// Launches the kernels in metal/fft/pass.metal.
#include "ops/fft/transform.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "fft/params.h"
#include "ops/fft/plan.h"

namespace mpsx::ops::fft {
namespace {

// The indices of twiddle factors, which are at most twice the length of the transform, must fit in 32 bits.
constexpr int64_t kMaxLength = int64_t(1) << 28;

// One of the dimensions that index the columns of a pass.
struct Axis {
  int64_t size, in_stride, out_stride;
  uint32_t phase;
};

// A buffer with a batch of transforms. It has one stride per batch dimension and a stride between points.
struct Lines {
  Tensor tensor;  // undefined if the pass reads no input
  std::vector<int64_t> strides;
  int64_t unit;

  const std::byte* data() const {
    return tensor.defined() ? static_cast<const std::byte*>(tensor.const_data_ptr()) : nullptr;
  }
};

constexpr FftOutput kUnscaled{1, 0, 0, 0, 0};

// Extra work in the first and last pass of a transform. See FftParams.
struct Ends {
  FftInput input{};
  FftOutput output = kUnscaled;
  uint32_t chirp = 0;
  Tensor table;
};

// Sorts the dimensions by their stride in the input or the output, and merges dimensions that are contiguous in both.
// Adjacent threads should process adjacent indices of the first resulting dimension.
std::vector<Axis> arranged(std::vector<Axis> axes, bool by_output) {
  std::erase_if(axes, [](const Axis& a) { return a.size == 1; });
  std::stable_sort(axes.begin(), axes.end(), [&](const Axis& a, const Axis& b) {
    return by_output ? a.out_stride < b.out_stride : a.in_stride < b.in_stride;
  });
  std::vector<Axis> result;
  for (const Axis& a : axes) {
    if (!result.empty()) {
      Axis& last = result.back();
      if (last.phase == 0 && a.phase == 0 && a.in_stride == last.in_stride * last.size &&
          a.out_stride == last.out_stride * last.size) {
        last.size *= a.size;
        continue;
      }
    }
    result.push_back(a);
  }
  return result;
}

// Launches one pass. Grid positions and columns are 32-bit numbers, so larger batches are split in half.
void launch(const KernelSet& kernels, const Lines& in, const Lines& out, const Tensor& table, FftParams p,
            std::vector<Axis> axes, int64_t in_offset, int64_t out_offset) {
  int64_t columns = 1;
  for (const Axis& a : axes) columns *= a.size;
  if (columns > INT32_MAX) {
    const auto largest = std::max_element(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
      return a.phase != 0 ? b.phase == 0 : b.phase == 0 && a.size < b.size;
    });
    const int64_t all = largest->size, half = all / 2;
    const Axis axis = *largest;
    largest->size = half;
    launch(kernels, in, out, table, p, axes, in_offset, out_offset);
    largest->size = all - half;
    return launch(kernels, in, out, table, p, axes, in_offset + half * axis.in_stride,
                  out_offset + half * axis.out_stride);
  }
  for (size_t d = 0; d < axes.size(); ++d) {
    p.in_stride[d] = axes[d].in_stride;
    p.out_stride[d] = axes[d].out_stride;
    p.extent[d] = uint32_t(axes[d].size);
    p.phase[d] = axes[d].phase;
  }
  p.axes = uint32_t(axes.size());
  p.columns = uint32_t(columns);
  const int64_t in_size = in.tensor.defined() ? in.tensor.element_size() : 0;
  const Tag from = in.tensor.defined() ? tag_of(in.tensor) : Tag::c64, to = tag_of(out.tensor);
  const uint32_t points = p.columns_per_group * p.size;
  Launch(from == to ? kernels.get(to) : kernels.get(from, to))
      .pointer(static_cast<std::byte*>(out.tensor.mutable_data_ptr()) + out_offset * out.tensor.element_size())
      .pointer(in.data() ? in.data() + in_offset * in_size : nullptr)
      .inputs(table)
      .bytes(p)
      .groups({uint32_t(ceil_div(p.columns, p.columns_per_group))}, std::clamp(points / 8, 32u, 256u))
      .work(uint64_t(points) * 16)
      .run();
}

// Launches one pass of `size` points, which is part of a transform of `length` points. `before` is the product of the
// sizes of the passes before it.
void pass(const Lines& in, const Lines& out, at::IntArrayRef batch, int64_t length, int64_t before, int64_t size,
          const Ends& ends) {
  static const KernelSet large("fft_pass"), small("fft_pass_small");
  const bool first = before == 1;
  const int64_t rest = length / before / size;
  std::vector<Axis> axes;
  for (size_t d = 0; d < batch.size(); ++d) axes.push_back({batch[d], in.strides[d], out.strides[d], 0});
  axes.push_back({before, in.unit, out.unit, first ? 0u : 1u});
  axes.push_back({rest, before * in.unit, before * size * out.unit, first ? 1u : 0u});

  FftParams p{};
  p.input = ends.input;
  p.output = ends.output;
  p.chirp = ends.chirp;
  p.size = uint32_t(size);
  p.length = uint32_t(length);
  p.in_unit = in.unit;
  p.in_step = before * rest * in.unit;
  p.out_step = before * out.unit;
  p.twiddle = first ? 0 : uint32_t(before * size);
  p.in_spacing = uint32_t(first ? rest : 1);
  p.out_spacing = uint32_t(before);
  const bool reads_rows = p.in_step == 1;
  axes = arranged(std::move(axes), reads_rows);
  TORCH_INTERNAL_ASSERT(axes.size() <= kFftAxes, "fft: ", axes.size(), " dimensions cannot be joined");
  if (!axes.empty()) {
    p.in_across = axes[0].in_stride < p.in_step;
    p.out_across = axes[0].out_stride < p.out_step;
  }
  const std::vector<uint32_t> steps = radices(uint32_t(size));
  std::copy(steps.begin(), steps.end(), p.radices);
  p.stages = uint32_t(steps.size());

  int64_t columns = 1;
  for (const Axis& a : axes) columns *= a.size;
  // Pad the pitch, so that columns start in different banks of threadgroup memory. Eight columns suffice for
  // coalescing.
  const int64_t pitch = size | 1, tile = 8 * pitch <= kFftSmallTile ? kFftSmallTile : kFftTile;
  p.columns_per_group = uint32_t(std::clamp<int64_t>(tile / pitch, 1, columns));
  p.pitch = uint32_t(p.columns_per_group == 1 ? size : pitch);
  launch(tile == kFftSmallTile ? small : large, in, out, ends.table, p, std::move(axes), 0, 0);
}

// Allocates `length` points for each transform, with the dimensions in the same order as in `like`.
Lines scratch(const Lines& like, at::IntArrayRef batch, int64_t length) {
  Lines result{{}, std::vector<int64_t>(batch.size()), 1};
  std::vector<size_t> order(batch.size() + 1);
  std::iota(order.begin(), order.end(), size_t(0));
  const auto stride = [&](size_t d) { return d < batch.size() ? like.strides[d] : like.unit; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return stride(a) < stride(b); });
  int64_t elements = 1;
  for (const size_t d : order) {
    (d < batch.size() ? result.strides[d] : result.unit) = elements;
    elements *= d < batch.size() ? batch[d] : length;
  }
  result.tensor = at::empty({elements}, like.tensor.options().dtype(at::kComplexFloat));
  return result;
}

// Launches all passes of a transform whose length has only small prime factors.
void run_passes(const Lines& in, const Lines& out, at::IntArrayRef batch, int64_t length,
                const std::vector<uint32_t>& sizes, const Ends& ends) {
  Lines between[2];
  const Lines* from = &in;
  int64_t before = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool first = i == 0, last = i + 1 == sizes.size();
    const Ends here{first ? ends.input : FftInput{}, last ? ends.output : kUnscaled, ends.chirp,
                    first ? ends.table : Tensor()};
    const Lines* to = &out;
    if (!last) {
      to = &between[i % 2];
      if (!to->tensor.defined()) between[i % 2] = scratch(out, batch, length);
    }
    pass(*from, *to, batch, length, before, sizes[i], here);
    from = to;
    before *= sizes[i];
  }
}

// L. Bluestein, "A linear filtering approach to the computation of the discrete Fourier transform". With c(k) = exp(-pi
// i k^2 / n), the transform of x is c(k) times the convolution of c x and conj(c).
void run_bluestein(const Lines& in, const Lines& out, at::IntArrayRef batch, const Transform& t, uint32_t out_limit) {
  const int64_t size = convolution_size(t.length);
  const std::vector<uint32_t> sizes = pass_sizes(size);
  Ends kernel;
  kernel.input.source = kFftChirp;
  kernel.chirp = uint32_t(t.length);
  const Lines table{at::empty({size}, out.tensor.options().dtype(at::kComplexFloat)), {}, 1};
  run_passes(Lines{{}, {}, 1}, table, {}, size, sizes, kernel);

  const Lines spectrum = scratch(out, batch, size);
  Ends forward = kernel;
  forward.input.source = t.hermitian ? kFftHermitian : kFftDirect;
  forward.input.limit = uint32_t(t.length);
  forward.input.swap_first = t.inverse;
  forward.input.factor = kFftByChirp;
  run_passes(in, spectrum, batch, size, sizes, forward);

  Ends back = kernel;
  back.table = table.tensor;
  back.input.source = kFftDirect;
  back.input.factor = kFftByTable;
  back.input.swap_last = 1;
  back.output.swap_first = 1;
  back.output.factor = kFftByChirp;
  back.output.swap_last = t.inverse;
  back.output.limit = out_limit;
  back.output.scale = float(t.scale / double(size));
  run_passes(spectrum, out, batch, size, sizes, back);
}

}  // namespace

void transform(const Tensor& in, const Tensor& out, int64_t dim, const Transform& t) {
  TORCH_CHECK(t.length <= kMaxLength, "fft: expected a length of at most 2^28, got ", t.length);
  if (out.numel() == 0) return;
  if (out.dim() > int64_t(kFftAxes) - 1) {
    // A pass supports only a few batch dimensions, so flatten them.
    const Tensor rows = in.movedim(dim, -1), lines = rows.reshape({-1, rows.size(-1)});
    const Tensor result = at::empty({lines.size(0), out.size(dim)}, out.options());
    transform(lines, result, 1, t);
    out.movedim(dim, -1).copy_(result.view(out.movedim(dim, -1).sizes()));
    return;
  }
  Lines from{in, {}, in.stride(dim)}, to{out, {}, out.stride(dim)};
  std::vector<int64_t> batch;
  for (int64_t d = 0; d < out.dim(); ++d) {
    if (d == dim) continue;
    batch.push_back(out.size(d));
    from.strides.push_back(in.stride(d));
    to.strides.push_back(out.stride(d));
  }
  const auto out_limit = uint32_t(out.size(dim));
  const std::vector<uint32_t> sizes = pass_sizes(t.length);
  if (sizes.empty()) return run_bluestein(from, to, batch, t, out_limit);
  Ends ends;
  ends.input.source = t.hermitian ? kFftHermitian : kFftDirect;
  ends.input.swap_first = ends.output.swap_last = t.inverse;
  ends.output.limit = out_limit == t.length ? 0 : out_limit;
  ends.output.scale = float(t.scale);
  run_passes(from, to, batch, t.length, sizes, ends);
}

}  // namespace mpsx::ops::fft
