// Shared by operators on sparse COO tensors, which are composed of dense operators on indices and values.
#pragma once

#include <ATen/native/SparseTensorUtils.h>

#include "backend/same_device.h"
#include "ops/op.h"
#include "ops/output.h"

namespace mpsx::ops::sparse {

using at::IntArrayRef;
using backend::check_same_device;

// Runs an operator through the fallback to the CPU's sparse tensors, for what is not composed here.
template <typename Result, c10::DispatchKey cpu_key = c10::DispatchKey::SparseCPU, typename... Arguments>
Result on_cpu(const char* name, const char* overload, const Arguments&... arguments) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const auto run = [&](torch::jit::Stack& stack) { backend::fallback(op, cpu_key, &stack); };
  return backend::call_boxed<Result>(run, arguments...);
}

// Whether dense operators have kernels for its elements.
inline bool has_kernels(const Tensor& t) { return tag_of(t) != Tag::none; }

// A sparse tensor that has these parts, which are not copied. Fewer than two elements are coalesced in any case.
Tensor made_of(const Tensor& indices, const Tensor& values, IntArrayRef sizes, bool coalesced);

// Gives an out= argument the parts of `from`, in its own type.
Tensor& give(Tensor& out, const Tensor& from);

// Throws unless a result of the common type of `a` and `b` may be written into `out`. Returns that type.
at::ScalarType common_type(const char* op, const Tensor& a, const Tensor& b, const Tensor& out);

// One number for each column of `indices`, in whose order coordinates are sorted; of the given dimensions or all.
Tensor flat_index(const Tensor& indices, IntArrayRef sizes, IntArrayRef dims);
Tensor flat_index(const Tensor& indices, IntArrayRef sizes);
at::DimVector all_dims(const Tensor& indices);

// The number of values that flat_index can take, or the largest int64 if that is less.
int64_t index_range(IntArrayRef sizes, IntArrayRef dims);

// Equal keys side by side.
struct Grouped {
  Tensor order;   // of the elements, by their key
  Tensor firsts;  // the place, in that order, of the first of each group
  Tensor of;      // in that order, the group of each
  int64_t count;  // of groups
  // The keys are at least 0 and less than `range`.
  Grouped(const Tensor& keys, int64_t range);
};

// Ranges of whole numbers one after another: range k has lengths[k] of them, from first[k] on.
struct Ranges {
  Tensor range, number;  // of each number: its range, and itself
  Ranges(const Tensor& first, const Tensor& lengths);
};

// Sums of rows of a table of floating-point numbers: row b of the result is that of weights[k] * table[indices[k]], k
// from starts[b] up to the next start, or the end of `indices`. Without weights they are 1.
Tensor sums_of_rows(const Tensor& table, const Tensor& indices, const Tensor& starts, int64_t count,
                    const Tensor& weights);

// The places of `keys` in `sorted`, which has no duplicates: place[k] is meaningful if found[k].
struct Lookup {
  Tensor place, found;
  Lookup(const Tensor& sorted, const Tensor& keys);
  // The rows of `values` at those places, zeros for what was not found.
  Tensor rows(const Tensor& values) const;
  // `rows` of which there is one for each key, zeros for those not found.
  Tensor kept(const Tensor& rows) const;
};

// A sparse matrix ordered by rows.
struct Rows {
  Tensor starts;          // of each row, and the end of the last
  Tensor column, values;  // of each element
  int64_t count;
  Rows(const char* op, const Tensor& starts, const Tensor& column, const Tensor& values, int64_t columns);
  // The coordinates of each element; `sorted`: by row already.
  static Rows of(const char* op, const Tensor& row, const Tensor& column, const Tensor& values, int64_t rows,
                 int64_t columns, bool sorted);
  Tensor lengths() const;
  // The row of each element.
  Tensor row() const;
  // The product with a dense matrix.
  Tensor times(const Tensor& dense) const;
};

// beta * self + alpha * product, in the product's memory; `self` may broadcast.
Tensor combine(const Tensor& self, const Tensor& product, const at::Scalar& beta, const at::Scalar& alpha);

}  // namespace mpsx::ops::sparse
