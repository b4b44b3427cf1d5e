// The interface of mpp::tensor_ops::matmul2d (Metal Performance Primitives, macOS 26). matmul2d_reference.h and
// ../cuda/tensor/ implement it.
#pragma once

namespace mpp {
namespace tensor_ops {
// A length that the operands determine. Like dynamic_extent, it can be passed for k and to slice().
template <class T>
inline constexpr T dynamic_length_v = metal::numeric_limits<T>::max();
// Apple's example for get_destination_cooperative_tensor uses this internal name, and so do published kernels. In
// translated code, types have no address space.
namespace __tensor_ops_detail {
template <class T>
using __remove_addrspace_t = T;
}
using __tensor_ops_detail::__remove_addrspace_t;

// Computes an m x n tile of C = A B, where A is M x K, B is K x N, and C is M x N. The extents, starting with extent 0,
// are (K, M) for A, (N, K) for B, and (N, M) for C. If A or B is transposed, its extents are (M, K) or (K, N).
struct matmul2d_descriptor {
  enum class mode { multiply, multiply_accumulate };
  int m, n, k;  // if k is 0, dynamic_extent, or dynamic_length_v<int>, K is taken from the operands
  bool transpose_left, transpose_right, relaxed_precision;
  mode matmul_mode;
  constexpr matmul2d_descriptor(int rows, int columns, int depth = static_cast<int>(metal::dynamic_extent),
                                bool transposes_left = false, bool transposes_right = false, bool is_relaxed = false,
                                mode what = mode::multiply)
      : m(rows),
        n(columns),
        k(depth),
        transpose_left(transposes_left),
        transpose_right(transposes_right),
        relaxed_precision(is_relaxed),
        matmul_mode(what) {}
  constexpr bool mpsx_accumulates() const { return matmul_mode == mode::multiply_accumulate; }
};
enum class matmul2d_cooperative_operand_index { destination };

enum class reduction_operation { sum, max, min };
template <class T>
struct reduction_operation_identity {
  static constexpr T sum_identity = T(0);
  static constexpr T max_identity = metal::numeric_limits<T>::lowest();
  static constexpr T min_identity = metal::numeric_limits<T>::max();
};
}  // namespace tensor_ops
}  // namespace mpp

namespace mpsx {
using mpp::tensor_ops::matmul2d_descriptor;

template <class X>
struct element_of {
  typedef metal::remove_cv_t<X> type;
};
template <class E, class S, class D, class... T>
struct element_of<metal::tensor<E, S, D, T...>> {
  typedef typename metal::tensor<E, S, D, T...>::value_type type;
};
template <class E, class S, class L>
struct element_of<metal::cooperative_tensor<E, S, L>> {
  typedef E type;
};
// Whether X is a tensor whose elements are const.
template <class X>
constexpr bool has_const_elements = false;
template <class E, class S, class D, class... T>
constexpr bool has_const_elements<metal::tensor<E, S, D, T...>> =
    metal::is_const_v<typename metal::tensor<E, S, D, T...>::element_type>;
template <class E, class S, class D, class... T>
constexpr bool has_const_elements<const metal::tensor<E, S, D, T...>> =
    has_const_elements<metal::tensor<E, S, D, T...>>;
// As an argument of matmul2d: allows cooperative operands in every scope, and conversions of cooperative tensors of
// other element types. Apple's compiler has no such argument.
struct more_cooperative_operands {};
template <class X>
using element_of_t = typename element_of<metal::remove_cvref_t<X>>::type;
template <class T>
constexpr bool is_int8 =
    metal::is_same_v<T, char> || metal::is_same_v<T, metal::uchar> || metal::is_same_v<T, metal::int8_t>;
template <class T>
constexpr bool is_matmul_float =
    metal::is_same_v<T, float> || metal::is_same_v<T, metal::half> || metal::is_same_v<T, metal::bfloat>;

// Whether matmul2d supports the element types. For a floating-point C, A and B may be floating-point types or 8-bit
// integers. For an int C, A and B must be 8-bit integers.
template <class A, class B, class C>
constexpr bool is_supported_matmul = (is_matmul_float<A> || is_int8<A>) && (is_matmul_float<B> || is_int8<B>) &&
                                     (is_matmul_float<C> || (metal::is_same_v<C, int> && is_int8<A> && is_int8<B>));
// Whether X is a tensor whose elements have 4 bits.
template <class X>
constexpr bool is_packed = false;
template <class E, class S, class D, class... T>
constexpr bool is_packed<metal::tensor<E, S, D, T...>> = metal::tensor<E, S, D, T...>::mpsx_storage::is_packed;
// Whether B may have elements of 4 bits: next to half or bfloat elements, or 8-bit integers with the same sign.
template <class A, class B>
constexpr bool is_supported_packed = metal::is_same_v<A, metal::half> || metal::is_same_v<A, metal::bfloat> ||
                                     (is_int8<A> && metal::is_signed_v<A> == metal::is_signed_v<B>);

// The numbers of rows and columns of an operation's matrices, as they are stored in memory.
template <matmul2d_descriptor D>
struct matmul_shape {
  static constexpr bool kStaticK = D.k > 0 && D.k != mpp::tensor_ops::dynamic_length_v<int>;
  static constexpr int kK = kStaticK ? D.k : 0;
  static constexpr int kLeftRows = D.transpose_left ? kK : D.m, kLeftColumns = D.transpose_left ? D.m : kK;
  static constexpr int kRightRows = D.transpose_right ? D.n : kK, kRightColumns = D.transpose_right ? kK : D.n;
};

// Whether the threads of a scope hold a matrix as fragments (fragment_layout).
template <int ROWS, int COLUMNS, class Scope>
constexpr bool has_fragments = scope_size<Scope>::simdgroups == 1 && kSimdThreads > 1 && ROWS > 0 && ROWS % 16 == 0 &&
                               COLUMNS > 0 && COLUMNS % 16 == 0;
// The layout of other matrices. Each driver defines it differently.
template <int ROWS, int COLUMNS, class Scope>
struct default_layout;

// The layout of a matrix in the registers of a scope's threads. If the operation transposes it (TRANSPOSED), its
// fragments are in row-major order of the transposed matrix. This only makes a difference if both sides have several.
template <int ROWS, int COLUMNS, class Scope, bool TRANSPOSED = false, bool = has_fragments<ROWS, COLUMNS, Scope>>
struct matrix_layout : default_layout<ROWS, COLUMNS, Scope> {};
template <int ROWS, int COLUMNS, class Scope, bool TRANSPOSED>
struct matrix_layout<ROWS, COLUMNS, Scope, TRANSPOSED, true> {
  typedef fragment_layout<ROWS, COLUMNS, TRANSPOSED && (ROWS > 16) && (COLUMNS > 16)> type;
};
template <matmul2d_descriptor D, class Scope>
struct destination_layout : matrix_layout<D.m, D.n, Scope> {};
// The layouts of cooperative operands. An operand that is not transposed has the same layout as a destination with its
// extents, because kernels copy one to the other element by element.
template <matmul2d_descriptor D, class Scope>
struct left_layout : matrix_layout<matmul_shape<D>::kLeftRows, matmul_shape<D>::kLeftColumns, Scope, D.transpose_left> {
};
template <matmul2d_descriptor D, class Scope>
struct right_layout
    : matrix_layout<matmul_shape<D>::kRightRows, matmul_shape<D>::kRightColumns, Scope, D.transpose_right> {};

// Returns K, which it reads from the extents of the tensor operands.
template <matmul2d_descriptor D, class A, class B>
MPSX_FN int depth_of(const A& left, const B& right) {
  if constexpr (matmul_shape<D>::kStaticK) return D.k;
  if constexpr (is_tensor_v<A>) return int(left.get_extent(D.transpose_left ? 1 : 0));
  if constexpr (is_tensor_v<B>) return int(right.get_extent(D.transpose_right ? 0 : 1));
  return 0;
}

template <class T>
MPSX_FN T reduced(mpp::tensor_ops::reduction_operation operation, T a, T b) {
  switch (operation) {
    case mpp::tensor_ops::reduction_operation::max: return metal::max(a, b);
    case mpp::tensor_ops::reduction_operation::min: return metal::min(a, b);
    default: return T(a + b);
  }
}
}  // namespace mpsx

#ifdef MPSX_CUDA
#  include "../cuda/tensor/matmul2d.h"
#else
#  include "matmul2d_reference.h"
#endif

namespace mpp {
namespace tensor_ops {
template <matmul2d_descriptor Descriptor, class Scope, class... Arguments>
class matmul2d {
  typedef mpsx::matmul_shape<Descriptor> shape;
  static constexpr bool kExtended = (false || ... || metal::is_same_v<Arguments, mpsx::more_cooperative_operands>);
  static_assert(Descriptor.m > 0 && Descriptor.n > 0, "matmul2d: m and n must be positive");
  static_assert(Descriptor.k >= 0 || Descriptor.k == static_cast<int>(metal::dynamic_extent),
                "matmul2d: k must not be negative");

 public:
  static constexpr matmul2d_descriptor descriptor = Descriptor;
  typedef Scope scope;
  typedef typename mpsx::destination_layout<Descriptor, Scope>::type mpsx_destination;
  typedef typename mpsx::left_layout<Descriptor, Scope>::type mpsx_left;
  typedef typename mpsx::right_layout<Descriptor, Scope>::type mpsx_right;

  template <class Left, class Right, class T, class C = int, class... A>
  using cooperative_tensor_destination_t =
      mpsx::cooperative<T, mpsx_destination, C, mpsx::element_of_t<Left>, mpsx::element_of_t<Right>>;
  template <class Left, class Right, class T, class C = int, class... A>
  using cooperative_tensor_left_input_t = mpsx::cooperative<metal::remove_cv_t<Left>, mpsx_left, C>;
  template <class Left, class Right, class T, class C = int, class... A>
  using cooperative_tensor_right_input_t = mpsx::cooperative<metal::remove_cv_t<Right>, mpsx_right, C>;
  template <class Left, class Right, class T, class C = int, class... A>
  using cooperative_tensor_row_reduction_destination_t =
      mpsx::cooperative<T, mpsx::reduced_layout<mpsx_destination, true>, C>;
  template <class Left, class Right, class T, class C = int, class... A>
  using cooperative_tensor_column_reduction_destination_t =
      mpsx::cooperative<T, mpsx::reduced_layout<mpsx_destination, false>, C>;

  // Left and Right are the types of the operands that run() will receive.
  template <class Left, class Right, class T, class C = int, class... A>
  MPSX_FN auto get_destination_cooperative_tensor() const {
    return cooperative_tensor_destination_t<Left, Right, T, C>();
  }
  template <class Left, class Right, class T, class C = int, class... A>
  MPSX_FN auto get_row_reduction_destination_cooperative_tensor() const {
    return mpsx::cooperative<T, mpsx::reduced_layout<mpsx_destination, true>, C>();
  }
  template <class Left, class Right, class T, class C = int, class... A>
  MPSX_FN auto get_column_reduction_destination_cooperative_tensor() const {
    return mpsx::cooperative<T, mpsx::reduced_layout<mpsx_destination, false>, C>();
  }
  // Left, Right and T are element types. The tensor has the same extents as the operand in memory, so k must be static.
  template <class Left, class Right, class T, class C = int, class... A>
  MPSX_FN auto get_left_input_cooperative_tensor() const {
    check_cooperative_operand();
    return cooperative_tensor_left_input_t<Left, Right, T, C>();
  }
  template <class Left, class Right, class T, class C = int, class... A>
  MPSX_FN auto get_right_input_cooperative_tensor() const {
    check_cooperative_operand();
    return cooperative_tensor_right_input_t<Left, Right, T, C>();
  }
  // Copies a cooperative tensor, such as the destination of a different operation, to an operand with the same extents.
  template <class Left, class Right, class T, class C = int, class S, class E, class L>
  MPSX_FN auto get_left_input_cooperative_tensor(const metal::cooperative_tensor<S, E, L>& source,
                                                 MPSX_CALL_SITE) const {
    static_assert(kExtended || metal::is_same_v<S, Left>,
                  "matmul2d: expected a cooperative tensor with the element type of the left operand");
    static_assert(kExtended || !Descriptor.transpose_left,
                  "matmul2d: an operand that is a copy of a cooperative tensor cannot be transposed");
    auto operand = get_left_input_cooperative_tensor<Left, Right, T, C>();
    mpsx::convert_layout<Scope>(source, operand, mpsx_file, mpsx_line);
    return operand;
  }
  template <class Left, class Right, class T, class C = int, class S, class E, class L>
  MPSX_FN auto get_right_input_cooperative_tensor(const metal::cooperative_tensor<S, E, L>& source,
                                                  MPSX_CALL_SITE) const {
    static_assert(kExtended || metal::is_same_v<S, Right>,
                  "matmul2d: expected a cooperative tensor with the element type of the right operand");
    static_assert(kExtended || !Descriptor.transpose_right,
                  "matmul2d: an operand that is a copy of a cooperative tensor cannot be transposed");
    auto operand = get_right_input_cooperative_tensor<Left, Right, T, C>();
    mpsx::convert_layout<Scope>(source, operand, mpsx_file, mpsx_line);
    return operand;
  }
  template <class Left, class Right, class T, class S>
  static constexpr bool is_compatible_as_left_input(const S&) {
    return S::mpsx_layout::kRows == shape::kLeftRows && S::mpsx_layout::kColumns == shape::kLeftColumns;
  }
  template <class Left, class Right, class T, class S>
  static constexpr bool is_compatible_as_right_input(const S&) {
    return S::mpsx_layout::kRows == shape::kRightRows && S::mpsx_layout::kColumns == shape::kRightColumns;
  }

  // All threads of the scope must call this. Each operand is a tensor or a cooperative tensor created for this
  // operation. Reads outside a tensor's extents return zero, and writes outside them are skipped.
  template <class Left, class Right, class Destination, class... A>
  MPSX_FN void run(Left& left, Right& right, Destination& destination, MPSX_CALL_SITE) const {
    typedef metal::remove_cv_t<Destination> C;
    static_assert(mpsx::is_tensor_v<Left> || mpsx::is_cooperative_v<Left>, "matmul2d: left must be a tensor");
    static_assert(mpsx::is_tensor_v<Right> || mpsx::is_cooperative_v<Right>, "matmul2d: right must be a tensor");
    static_assert(mpsx::is_tensor_v<C> || mpsx::is_cooperative_v<C>, "matmul2d: destination must be a tensor");
    static_assert(!mpsx::has_const_elements<C>, "matmul2d: the destination's elements must not be const");
    static_assert(!mpsx::has_const_elements<Left> && !mpsx::has_const_elements<Right>,
                  "matmul2d: expected operands without const elements, as in Apple's headers; create the tensor from a "
                  "pointer without const");
    static_assert(Left::get_rank() == 2 && Right::get_rank() == 2 && C::get_rank() == 2,
                  "matmul2d: expected tensors of rank 2");
    static_assert(mpsx::is_supported_matmul<mpsx::element_of_t<Left>, mpsx::element_of_t<Right>, mpsx::element_of_t<C>>,
                  "matmul2d does not support this combination of element types");
    static_assert(!mpsx::is_packed<Left> && !mpsx::is_packed<C>, "matmul2d: only right may have elements of 4 bits");
    if constexpr (mpsx::is_packed<Right>) {
      static_assert(mpsx::is_supported_packed<mpsx::element_of_t<Left>, mpsx::element_of_t<Right>>,
                    "matmul2d: next to elements of 4 bits, left must have half or bfloat elements, or 8-bit integers "
                    "of the same sign");
      static_assert(!shape::kStaticK || Descriptor.k % 32 == 0,
                    "matmul2d: with elements of 4 bits, k must be a multiple of 32");
    }
    if constexpr (mpsx::is_cooperative_v<C>) {
      static_assert(metal::is_same_v<typename C::mpsx_layout, mpsx_destination>,
                    "matmul2d: the destination is a cooperative tensor of another operation");
      static_assert(mpsx::is_for_operands<C, mpsx::element_of_t<Left>, mpsx::element_of_t<Right>>,
                    "matmul2d: the destination was created for operands with other element types");
    }
    if constexpr (mpsx::is_cooperative_v<Left>)
      static_assert(metal::is_same_v<typename Left::mpsx_layout, mpsx_left>,
                    "matmul2d: left is a cooperative tensor of another operation");
    if constexpr (mpsx::is_cooperative_v<Right>)
      static_assert(metal::is_same_v<typename Right::mpsx_layout, mpsx_right>,
                    "matmul2d: right is a cooperative tensor of another operation");
    mpsx::multiply<Descriptor, Scope>(left, right, destination, mpsx_file, mpsx_line);
  }
  // Apple's run() takes references to operands that are not const.
  template <class Left, class Right, class Destination,
            class = metal::enable_if_t<!(metal::is_lvalue_reference_v<Left> && metal::is_lvalue_reference_v<Right> &&
                                         metal::is_lvalue_reference_v<Destination>)>>
  MPSX_FN void run(Left&&, Right&&, Destination&&) const {
    static_assert(metal::is_lvalue_reference_v<Left> && metal::is_lvalue_reference_v<Right> &&
                      metal::is_lvalue_reference_v<Destination>,
                  "matmul2d: expected variables as operands, as in Apple's headers, got a temporary value");
  }

 private:
  static constexpr void check_cooperative_operand() {
    static_assert(kExtended || metal::is_same_v<Scope, metal::execution_simdgroup>,
                  "matmul2d: only execution_simdgroup can have cooperative operands");
    static_assert(shape::kStaticK, "matmul2d: a cooperative operand needs a static k");
  }
};

// Reduces each row of `source` to one value. `identity` must be the identity element of `operation`.
template <class T, class SE, class DE, class SL, class DL>
MPSX_FN void reduce_rows(const metal::cooperative_tensor<T, SE, SL>& source,
                         metal::cooperative_tensor<T, DE, DL>& destination,
                         reduction_operation operation = reduction_operation::sum,
                         T identity = reduction_operation_identity<T>::sum_identity, MPSX_CALL_SITE) {
  mpsx::reduce_matrix<true>(source, destination, operation, identity, mpsx_file, mpsx_line);
}
template <class T, class SE, class DE, class SL, class DL>
MPSX_FN void reduce_columns(const metal::cooperative_tensor<T, SE, SL>& source,
                            metal::cooperative_tensor<T, DE, DL>& destination,
                            reduction_operation operation = reduction_operation::sum,
                            T identity = reduction_operation_identity<T>::sum_identity, MPSX_CALL_SITE) {
  mpsx::reduce_matrix<false>(source, destination, operation, identity, mpsx_file, mpsx_line);
}
// Whether destination.map_iterator() accepts iterators of `source`.
template <class S, class D, class SE, class DE, class SL, class DL>
MPSX_FN constexpr bool is_iterator_compatible(const metal::cooperative_tensor<S, SE, SL>&,
                                              const metal::cooperative_tensor<D, DE, DL>&) {
  typedef typename DL::layout R;
  return mpsx::same_slots<typename SL::layout, typename R::source, R::kOfRows>();
}
}  // namespace tensor_ops
}  // namespace mpp
