// Helpers that operators on sparse COO tensors share. These operators are composed from dense operators on indices and
// values.
#pragma once

#include <ATen/native/SparseTensorUtils.h>

#include "backend/same_device.h"
#include "ops/op.h"
#include "ops/output.h"

namespace mpsx::ops::sparse {

using at::IntArrayRef;
using backend::check_same_device;

// Runs an operator through the fallback, using the CPU's sparse kernels.
template <typename Result, c10::DispatchKey cpu_key = c10::DispatchKey::SparseCPU, typename... Arguments>
Result on_cpu(const char* name, const char* overload, const Arguments&... arguments) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const auto run = [&](torch::jit::Stack& stack) { backend::fallback(op, cpu_key, &stack); };
  return backend::call_boxed<Result>(run, arguments...);
}

// Returns whether dense operators have kernels for the dtype.
inline bool has_kernels(const Tensor& t) { return tag_of(t) != Tag::none; }

// Creates a sparse tensor from indices and values without copying them. A tensor with fewer than two elements is always
// coalesced.
Tensor make_sparse(const Tensor& indices, const Tensor& values, IntArrayRef sizes, bool coalesced);

// Moves the indices and values of `from` to an out= tensor. Casts them to its dtype.
Tensor& move_to_out(Tensor& out, const Tensor& from);

// Returns the common dtype of `a` and `b`. Throws if a result of this dtype cannot be written to `out`.
at::ScalarType common_type(const char* op, const Tensor& a, const Tensor& b, const Tensor& out);

// Returns one sort key for every column of `indices`, which combines the given dimensions, or all of them.
Tensor flat_index(const Tensor& indices, IntArrayRef sizes, IntArrayRef dims);
Tensor flat_index(const Tensor& indices, IntArrayRef sizes);
at::DimVector all_dims(const Tensor& indices);

// Returns how many different values flat_index can return, saturated at the largest int64.
int64_t index_range(IntArrayRef sizes, IntArrayRef dims);

// Groups elements with equal keys.
struct Grouped {
  Tensor order;   // permutation that sorts elements by key
  Tensor firsts;  // where each group starts in `order`
  Tensor of;      // the group of each entry of `order`
  int64_t count;  // number of groups
  // All keys must be in [0, range).
  Grouped(const Tensor& keys, int64_t range);
};

// A concatenation of integer ranges. Range k contains lengths[k] numbers, starting at first[k].
struct Ranges {
  Tensor range, number;  // for each number, the index of its range and its value
  Ranges(const Tensor& first, const Tensor& lengths);
};

// Computes weighted sums of rows of a table. Row b of the result is the sum of weights[k] * table[indices[k]] for k
// from starts[b] to the next start (or to the end of `indices`). Weights default to 1.
Tensor sum_rows(const Tensor& table, const Tensor& indices, const Tensor& starts, int64_t count, const Tensor& weights);

// Finds `keys` in `sorted`, which must not contain duplicates. position[k] is valid if found[k] is true.
struct Lookup {
  Tensor position, found;
  Lookup(const Tensor& sorted, const Tensor& keys);
  // Returns the rows of `values` at the positions of the keys, with zeros for keys that were not found.
  Tensor rows(const Tensor& values) const;
  // Returns `rows`, which has one row per key, but with zeros for keys that were not found.
  Tensor zero_unless_found(const Tensor& rows) const;
};

// A sparse matrix whose elements are sorted by row.
struct Rows {
  Tensor starts;          // the start of each row, followed by the end of the last one
  Tensor column, values;  // one per element
  int64_t count;
  Rows(const char* op, const Tensor& starts, const Tensor& column, const Tensor& values, int64_t columns);
  // Creates a matrix from the coordinates of its elements. `sorted` means that the elements are already sorted by row.
  static Rows of(const char* op, const Tensor& row, const Tensor& column, const Tensor& values, int64_t rows,
                 int64_t columns, bool sorted);
  Tensor lengths() const;
  // Returns the row of each element.
  Tensor row() const;
  // Multiplies by a dense matrix.
  Tensor times(const Tensor& dense) const;
};

// Overwrites `ab` with beta * self + alpha * ab. `self` may broadcast.
Tensor combine(const Tensor& self, const Tensor& ab, const at::Scalar& beta, const at::Scalar& alpha);

}  // namespace mpsx::ops::sparse
