// Launches the kernels in metal/linalg/qr.metal.
#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>

#include "ops/linalg/linalg.h"

namespace mpsx::ops::linalg {
namespace {

// Allocates column-major matrices.
Tensor empty_columns(int64_t batch, int64_t rows, int64_t columns, const Tensor& like) {
  return at::empty_strided({batch, rows, columns}, {rows * columns, 1, rows}, like.options());
}
// Allocates the T factors of `blocks` blocks of reflectors for each matrix.
Tensor empty_factors(int64_t batch, int64_t blocks, const Tensor& like) {
  return at::empty({batch, blocks * kPanel, kPanel}, like.options().memory_format(std::nullopt));
}

// Computes c -= V T V^H c, that is, multiplies c by Q. To multiply by Q^H, pass T^H.
void apply_block(const Tensor& v, const Tensor& t, const Tensor& c) {
  const Tensor w = empty_columns(c.size(0), v.size(2), c.size(2), c);
  const Tensor tw = empty_columns(c.size(0), v.size(2), c.size(2), c);
  multiply_add(w, adjoint(v), c, 1, 0);
  multiply_add(tw, t, w, 1, 0);
  multiply_add(c, v, tw, -1, 1);
}

// Computes the reflectors of a panel. Pass undefined v and t if only tau and R are needed.
void factor_panel(const Tensor& a, const Tensor& tau, int64_t first, int64_t columns, const Tensor& v,
                  const Tensor& t) {
  static const KernelSet kernels("qr_panel");
  const Tensor panel = part(a, first, first, a.size(1) - first, columns);
  const auto rows = uint32_t(panel.size(1));
  const bool keeps = v.defined();
  const QrParams p{strides_of(panel), keeps ? strides_of(v) : MatrixStrides{}, tau.stride(0), kPanel * kPanel,
                   rows,              uint32_t(columns),                       keeps,         0};
  Launch launch(kernels.get(tag_of(a)));
  launch.outputs(panel, part(tau, 0, first, 1, 1), v, t).bytes(p);
  launch.groups({uint32_t(a.size(0))}, rows > 256 ? uint32_t(kPanelThreads) : 256);
  launch.work(uint64_t(rows) * uint64_t(columns) * uint64_t(columns) * 2 + 1).run();
}

// Overwrites self with R and the reflectors of Q, like LAPACK's geqrf.
void geqrf(const Tensor& self, const Tensor& all_tau) {
  if (self.numel() == 0) return;
  const Tensor a = written_matrices("geqrf", self);
  const int64_t batch = a.size(0), rows = a.size(1), columns = a.size(2), count = std::min(rows, columns);
  checked_size("geqrf", std::max(rows, columns));
  const Tensor tau = all_tau.view({batch, 1, count});
  for (int64_t first = 0; first < count; first += kPanel) {
    const int64_t panel = std::min<int64_t>(kPanel, count - first), last = first + panel;
    Tensor v, t;
    if (last < columns) {
      v = empty_columns(batch, rows - first, panel, a);
      t = empty_factors(batch, 1, a);
    }
    factor_panel(a, tau, first, panel, v, t);
    if (last < columns)
      apply_block(v, adjoint(part(t, 0, 0, panel, panel)), part(a, first, last, rows - first, columns - last));
  }
}

// Overwrites the reflectors with Q, like LAPACK's orgqr. Applies the blocks of reflectors to the identity, from last to
// first. A block then changes none of the columns to its left, so they can be skipped.
Tensor& orgqr(Tensor& result, const Tensor& all_tau) {
  static const KernelSet kernels("reflector_block");
  if (result.numel() == 0) return result;
  const Tensor q = written_matrices("orgqr", result);
  const int64_t batch = q.size(0), rows = q.size(1), columns = q.size(2), count = all_tau.size(-1);
  checked_size("orgqr", rows);
  if (count == 0) {
    q.zero_();
    q.diagonal(0, 1, 2).fill_(1);
    return result;
  }
  const Tensor tau = all_tau.reshape({batch, 1, count});
  const Tensor v = empty_columns(batch, rows, count, q);
  v.copy_(part(q, 0, 0, rows, count));
  v.tril_(-1);
  v.diagonal(0, 1, 2).fill_(1);
  const int64_t blocks = (count + kPanel - 1) / kPanel;
  const Tensor t = empty_factors(batch, blocks, q);
  const ReflectorParams p{strides_of(v), tau.stride(0), uint32_t(rows), uint32_t(count)};
  Launch launch(kernels.get(tag_of(q)));
  launch.outputs(t).inputs(v, tau).bytes(p);
  launch.groups({uint32_t(blocks), uint32_t(batch)}, rows > 256 ? 1024 : 256);
  launch.work(uint64_t(rows) * kPanel * kPanel / 2).run();
  q.zero_();
  q.diagonal(0, 1, 2).fill_(1);
  for (int64_t block = blocks; block-- > 0;) {
    const int64_t first = block * kPanel, panel = std::min<int64_t>(kPanel, count - first);
    apply_block(part(v, first, first, rows - first, panel), part(t, first, 0, panel, panel),
                part(q, first, first, rows - first, columns - first));
  }
  return result;
}

}  // namespace
}  // namespace mpsx::ops::linalg

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(geqrf_stub, &mpsx::ops::linalg::geqrf)
REGISTER_PRIVATEUSE1_DISPATCH(orgqr_stub, &mpsx::ops::linalg::orgqr)
}  // namespace at::native
