// matmul2d as plain loops. Each thread computes the elements that it holds. Sums are float or int and run over k in
// order. Blocks of 32 steps of k are summed separately, as in the CUDA implementation for float operands. This loses
// fewer digits than one long sum.
#pragma once

namespace mpsx {
template <int ROWS, int COLUMNS, class Scope>
struct default_layout {
  typedef grid_layout<ROWS, COLUMNS, Scope> type;
};

// Reads an operand by row and column in memory. OPERAND is the operand's index in `peers`. Elements outside the extents
// are 0.
template <class Scope, class X, int OPERAND, bool = is_tensor_v<X>>
class matrix_reader {
 public:
  typedef typename X::value_type value_type;
  static MPSX_FN const void* object(const X&) { return nullptr; }
  MPSX_FN matrix_reader(const X& source, const peers<Scope>&) : source_(source) {}
  MPSX_FN value_type get(int row, int column) const {
    const bool inside = column < int(source_.get_extent(0)) && row < int(source_.get_extent(1));
    return inside ? value_type(source_.mpsx_data()[offset(row, column)]) : value_type(0);
  }

 private:
  MPSX_FN long offset(long row, long column) const {
    return column * long(source_.get_stride(0)) + row * long(source_.get_stride(1));
  }
  const X& source_;
};
template <class Scope, class X, int OPERAND>
class matrix_reader<Scope, X, OPERAND, false> {
 public:
  typedef typename X::element_type value_type;
  typedef typename X::mpsx_layout L;
  static MPSX_FN const void* object(const X& source) { return source.mpsx_elements(); }
  MPSX_FN matrix_reader(const X&, const peers<Scope>& all) : all_(all) {}
  MPSX_FN value_type get(int row, int column) const {
    if (row >= L::kRows || column >= L::kColumns) return value_type(0);
    int i;
    const int thread = L::owner(row, column, i);
    return all_.template get<value_type>(thread, OPERAND, i);
  }

 private:
  const peers<Scope>& all_;
};

// Returns `start` plus element (row, column) of A B.
template <matmul2d_descriptor D, class S, class A, class B>
MPSX_FN S dot_product(const A& left, const B& right, int row, int column, int depth, S start) {
  constexpr int kBlock = 32;
  for (int first = 0; first < depth; first += kBlock) {
    S sum = 0;
    for (int k = first; k < depth && k < first + kBlock; ++k) {
      const S a = S(D.transpose_left ? left.get(k, row) : left.get(row, k));
      const S b = S(D.transpose_right ? right.get(column, k) : right.get(k, column));
      if constexpr (metal::is_same_v<S, float>)
        sum = metal::fma(a, b, sum);
      else
        sum += a * b;
    }
    start += sum;
  }
  return start;
}

// Adds A B to the elements that a thread holds in layout L.
template <matmul2d_descriptor D, class L, class A, class B, class S>
MPSX_FN void accumulate_blocks(const A& left, const B& right, int thread, int depth, S (&sums)[L::kCapacity]) {
  for (int i = 0; i < L::kCapacity; ++i) {
    const int row = element_row<L>(thread, i), column = element_column<L>(thread, i);
    if (row < D.m && column < D.n) sums[i] = dot_product<D, S>(left, right, row, column, depth, sums[i]);
  }
}

// This is not inlined, because kernels unroll loops that call run(), and every copy would contain this function.
template <matmul2d_descriptor D, class Scope, class A, class B, class C>
__attribute__((noinline)) static void multiply(const A& left, const B& right, C& destination, const char* file,
                                               int line) {
  typedef typename destination_layout<D, Scope>::type L;
  typedef element_of_t<C> T;
  typedef metal::conditional_t<metal::is_same_v<T, int>, int, float> S;
  typedef matrix_reader<Scope, A, 0> left_reader;
  typedef matrix_reader<Scope, B, 1> right_reader;
  const peers<Scope> all(left_reader::object(left), right_reader::object(right), "matmul2d::run", file, line);
  const left_reader a(left, all);
  const right_reader b(right, all);
  const int thread = scope_thread<Scope>(), depth = depth_of<D>(left, right);
  for (int i = 0; i < L::kCapacity; ++i) {
    const int row = element_row<L>(thread, i), column = element_column<L>(thread, i);
    if (row >= D.m || column >= D.n) continue;
    T* element = nullptr;
    if constexpr (is_cooperative_v<C>) {
      element = &destination[i];
    } else {
      if (column >= int(destination.get_extent(0)) || row >= int(destination.get_extent(1))) continue;
      element = &destination[column, row];
    }
    const S start = D.mpsx_accumulates() ? S(*element) : S(0);
    *element = T(dot_product<D, S>(a, b, row, column, depth, start));
  }
}

// Copies `source` to `destination`, whose layout may differ.
template <class Scope, class S, class D>
__attribute__((noinline)) static void convert_layout(const S& source, D& destination, const char* file, int line) {
  typedef typename S::mpsx_layout A;
  typedef typename D::mpsx_layout B;
  typedef typename S::element_type T;
  static_assert(A::kRows == B::kRows && A::kColumns == B::kColumns,
                "matmul2d: a cooperative operand needs the extents of its source");
  static_assert(same_slots<A, B, true>() && same_slots<A, B, false>(),
                "matmul2d: a cooperative operand needs the scope of its source");
  const peers<Scope> all(source.mpsx_elements(), nullptr, "get_input_cooperative_tensor", file, line);
  const int thread = scope_thread<Scope>();
  for (int i = 0; i < B::kCapacity; ++i) {
    const int row = element_row<B>(thread, i), column = element_column<B>(thread, i);
    if (row >= B::kRows || column >= B::kColumns) continue;
    int k;
    const int owner = A::owner(row, column, k);
    destination[i] = typename D::element_type(all.template get<T>(owner, 0, k));
  }
}

template <bool OF_ROWS, class S, class D, class T>
__attribute__((noinline)) static void reduce_matrix(const S& source, D& destination,
                                                    mpp::tensor_ops::reduction_operation operation, T identity,
                                                    const char* file, int line) {
  typedef typename S::mpsx_layout L;
  typedef typename D::mpsx_layout R;
  typedef typename L::scope Scope;
  static_assert(R::kOfRows == OF_ROWS && same_slots<L, typename R::source, OF_ROWS>(),
                "reduce_rows and reduce_columns need a destination of the source's operation");
  const peers<Scope> all(source.mpsx_elements(), nullptr, OF_ROWS ? "reduce_rows" : "reduce_columns", file, line);
  const int thread = scope_thread<Scope>();
  for (int slot = 0; slot < R::kCapacity; ++slot) {
    const int at = R::position(thread, slot);
    if (at >= R::kSize) continue;
    T result = identity;
    for (int k = 0; k < (OF_ROWS ? L::kColumns : L::kRows); ++k) {
      int i;
      const int owner = OF_ROWS ? L::owner(at, k, i) : L::owner(k, at, i);
      result = reduced(operation, result, all.template get<T>(owner, 0, i));
    }
    destination[slot] = result;
  }
}
}  // namespace mpsx
