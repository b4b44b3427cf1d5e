// grid_sampler_2d, grid_sampler_3d, and their gradients. PyTorch's grid_sample calls them.
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "ops/operator.h"
#include "resample/grid_params.h"

namespace mpsx::ops {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

bool has_kernels(const Tensor& input, const Tensor& grid) {
  return is_plain(input) && is_plain(grid) && is_float_tag(tag_of(input)) && input.scalar_type() == grid.scalar_type();
}

GridSamplerParams parameters(const Tensor& input, const Tensor& grid, int64_t mode, int64_t padding, bool align) {
  GridSamplerParams p{int32_t(mode), int32_t(padding), align, {1, 1, 1}, 1, 1, uint32_t(input.size(1))};
  int64_t pixels = 1, plane = 1;
  for (int64_t d = 2; d < input.dim(); ++d) {
    plane *= input.size(d);
    pixels *= grid.size(d - 1);
    TORCH_CHECK(plane <= INT32_MAX && pixels <= INT32_MAX,
                "grid_sampler: expected planes of at most 2^31-1 elements, got ", input.sizes(), " and ", grid.sizes());
    p.size[input.dim() - 1 - d] = int32_t(input.size(d));
  }
  p.pixels = uint32_t(pixels);
  p.plane = uint32_t(plane);
  return p;
}
uint64_t taps(const GridSamplerParams& p, int64_t dims) {
  const uint64_t each = p.mode == kGridNearest ? 1 : (p.mode == kGridLinear ? 2 : 4);
  return dims == 2 ? each * each : each * each * each;
}

// Launches one thread per pixel of the grid. Each thread processes all channels.
void over_pixels(Launch& launch, const GridSamplerParams& p, int64_t images, int64_t dims) {
  launch.bytes(p).threads(p.pixels, 1, uint64_t(images)).work(16 + taps(p, dims) * p.channels).run();
}

// One set of kernels per mode.
struct ModeKernels {
  ModeKernels(const std::string& stem, const std::string& pass = "")
      : sets{KernelSet(stem + "_bilinear" + pass), KernelSet(stem + "_nearest" + pass),
             KernelSet(stem + "_bicubic" + pass)} {}
  runtime::KernelEntry& get(int64_t mode, const Tensor& input) const {
    TORCH_CHECK(mode >= 0 && mode < 3, "grid_sampler: expected an interpolation mode of 0, 1 or 2, got ", mode);
    return sets[mode].get(tag_of(input));
  }
  KernelSet sets[3];  // indexed by mode
};

template <int D>
std::optional<Tensor> forward(const Tensor& input, const Tensor& grid, int64_t mode, int64_t padding, bool align) {
  static const ModeKernels kernels("grid_sampler_" + std::to_string(D) + "d");
  at::native::check_grid_sampler_common(input, grid);
  if constexpr (D == 2)
    at::native::check_grid_sampler_2d(input, grid);
  else
    at::native::check_grid_sampler_3d(input, grid, mode);
  if (!has_kernels(input, grid)) return std::nullopt;
  c10::DimVector sizes(input.sizes());
  for (size_t d = 2; d < sizes.size(); ++d) sizes[d] = grid.size(int64_t(d) - 1);
  const Tensor out = at::empty(sizes, input.options());
  if (out.numel() == 0) return out;
  const Tensor x = input.contiguous(), where = grid.contiguous();
  Launch launch(kernels.get(mode, input));
  launch.outputs(out).inputs(x, where);
  const GridSamplerParams p = parameters(x, where, mode, padding, align);
  over_pixels(launch, p, x.size(0), D);
  return out;
}

template <int D>
std::optional<Pair> backward(const Tensor& grad_output, const Tensor& input, const Tensor& grid, int64_t mode,
                             int64_t padding, bool align, std::array<bool, 2> mask) {
  static const std::string stem = "grid_sampler_" + std::to_string(D) + "d";
  static const ModeKernels of_input(stem, "_bwd_input"), of_grid(stem, "_bwd_grid");
  at::native::check_grid_sampler_common(input, grid);
  if constexpr (D == 2)
    at::native::check_grid_sampler_2d(input, grid);
  else
    at::native::check_grid_sampler_3d(input, grid, mode);
  if (!has_kernels(input, grid) || !is_plain(grad_output) || grad_output.scalar_type() != input.scalar_type())
    return std::nullopt;
  const Tensor g = grad_output.contiguous(), x = input.contiguous(), where = grid.contiguous();
  const GridSamplerParams p = parameters(x, where, mode, padding, align);
  Tensor grad_input, grad_grid;
  if (mask[0]) {
    grad_input = at::zeros(x.sizes(), x.options().dtype(at::kFloat));
    if (g.numel() > 0)
      Launch(of_input.get(mode, x))
          .outputs(grad_input)
          .inputs(g, where)
          .bytes(p)
          .threads(ceil_div(p.channels, kGridChannels), uint64_t(x.size(0)))
          .work(p.pixels * (16 + taps(p, D) * kGridChannels))
          .run();
    grad_input = grad_input.to(x.scalar_type());
  }
  if (mask[1] && (mode == kGridNearest || g.numel() == 0)) {
    grad_grid = at::zeros(where.sizes(), where.options());
  } else if (mask[1]) {
    grad_grid = at::empty(where.sizes(), where.options());
    Launch launch(of_grid.get(mode, x));
    launch.outputs(grad_grid).inputs(g, x, where);
    over_pixels(launch, p, x.size(0), D);
  }
  return Pair(grad_input, grad_grid);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"grid_sampler_2d", &forward<2>>(m);
  op<"grid_sampler_3d", &forward<3>>(m);
  op<"grid_sampler_2d_backward", &backward<2>>(m);
  op<"grid_sampler_3d_backward", &backward<3>>(m);
}

}  // namespace mpsx::ops
