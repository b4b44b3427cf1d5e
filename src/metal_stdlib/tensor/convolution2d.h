// mpp::tensor_ops::convolution2d (Metal Performance Primitives, macOS 26), implemented as an implicit GEMM. Each row of
// A is the window of one output position, and K is the number of taps times the number of input channels.
#pragma once

namespace mpsx {
// Sizes in the order of the extents: channels, width, height, batch. This is not a vector type, because template
// arguments cannot contain vectors.
struct convolution_size {
  int x, y, z, w;
  constexpr convolution_size(metal::int4 v) : x(v.get(0)), y(v.get(1)), z(v.get(2)), w(v.get(3)) {}
  constexpr operator metal::int4() const { return metal::int4(x, y, z, w); }
};
struct window_size {
  int x, y;
  constexpr window_size(metal::int2 v) : x(v.get(0)), y(v.get(1)) {}
  constexpr operator metal::int2() const { return metal::int2(x, y); }
  // Returns the distance from a window's first tap to its center.
  static constexpr int centre(int taps, int dilation) { return ((taps - 1) * dilation + 1) / 2; }
};
}  // namespace mpsx

namespace mpp {
namespace tensor_ops {
enum class convolution2d_activation_layout { nhwc };
enum class convolution2d_weights_layout { hwio };

// The extents, starting with extent 0, are: activation (channels, width, height, batch), weights (output channels,
// channels, kernel width, kernel height), destination (output channels, width, height, batch).
struct convolution2d_descriptor {
  enum class mode { multiply, multiply_accumulate };
  // If the source's channel count is -1, the activation's extent is used.
  mpsx::convolution_size destination_dimensions, source_dimensions;
  mpsx::window_size kernel_dimensions;
  convolution2d_activation_layout activation_layout;
  convolution2d_weights_layout weights_layout;
  mpsx::window_size strides, dilations;
  int groups;
  bool relaxed_precision;
  mode conv2d_mode;
  constexpr convolution2d_descriptor(
      metal::int4 destination, metal::int4 source, metal::int2 kernel_size,
      convolution2d_activation_layout activation = convolution2d_activation_layout::nhwc,
      convolution2d_weights_layout weights = convolution2d_weights_layout::hwio,
      metal::int2 steps = metal::int2(1, 1), metal::int2 spacing = metal::int2(1, 1), int group_count = 1,
      bool is_relaxed = false, mode what = mode::multiply)
      : destination_dimensions(destination),
        source_dimensions(source),
        kernel_dimensions(kernel_size),
        activation_layout(activation),
        weights_layout(weights),
        strides(steps),
        dilations(spacing),
        groups(group_count),
        relaxed_precision(is_relaxed),
        conv2d_mode(what) {}
};
enum class convolution2d_cooperative_operand { destination };
}  // namespace tensor_ops
}  // namespace mpp

namespace mpsx {
using mpp::tensor_ops::convolution2d_descriptor;

template <convolution2d_descriptor D>
struct convolution_shape {
  static constexpr int kOutputs = D.destination_dimensions.x, kWidth = D.destination_dimensions.y,
                       kHeight = D.destination_dimensions.z, kBatch = D.destination_dimensions.w;
  // The number of input channels, or 0 if it is known only at run time.
  static constexpr int kChannels = D.source_dimensions.x > 0 ? D.source_dimensions.x : 0;
  static constexpr int kTaps = D.kernel_dimensions.x * D.kernel_dimensions.y;
  static constexpr bool kAccumulates = D.conv2d_mode == convolution2d_descriptor::mode::multiply_accumulate;
  static constexpr matmul2d_descriptor kProduct{kWidth * kHeight * kBatch,
                                                kOutputs,
                                                static_cast<int>(metal::dynamic_extent),
                                                false,
                                                false,
                                                D.relaxed_precision};
  static constexpr int kRows = kProduct.m;
};

// The layout of the GEMM result, with one row per output position.
template <convolution2d_descriptor D, class Scope>
struct convolution_layout : destination_layout<convolution_shape<D>::kProduct, Scope>::type {};
template <convolution2d_descriptor D, class Scope>
struct coordinates<convolution_layout<D, Scope>> {
  typedef convolution_layout<D, Scope> L;
  typedef convolution_shape<D> shape;
  static constexpr size_t kRank = 4;
  typedef metal::extents<int, size_t(shape::kOutputs), size_t(shape::kWidth), size_t(shape::kHeight),
                         size_t(shape::kBatch)>
      extents_type;
  static MPSX_FN int at(int thread, int i, size_t d) {
    if (d == 0) return element_column<L>(thread, i);
    const int row = element_row<L>(thread, i);
    return d == 1 ? row % shape::kWidth
                  : d == 2 ? row / shape::kWidth % shape::kHeight : row / (shape::kWidth * shape::kHeight);
  }
};

// Whether k covers the channels of all taps, which fills the K tiles even if there are few channels. Otherwise, k
// covers the channels of one tap at a time, which saves a division per element.
template <convolution2d_descriptor D>
constexpr bool joins_taps = convolution_shape<D>::kChannels > 0 && convolution_shape<D>::kChannels % 16 != 0 &&
                            convolution_shape<D>::kChannels < 64;
struct tap_channel {
  int tap, channel;
};
template <convolution2d_descriptor D>
MPSX_FN tap_channel split_k(int tap, int k) {
  constexpr int kChannels = convolution_shape<D>::kChannels;
  if constexpr (joins_taps<D>) return {k / kChannels, k % kChannels};
  return {tap, k};
}

// Reads the window of one output position (a row of A). Elements outside the activation are zero.
template <convolution2d_descriptor D, class X>
struct window_reader {
  typedef convolution_shape<D> shape;
  typedef typename X::value_type value_type;
  const X& source;
  metal::int2 offset;
  int tap;
  MPSX_FN value_type get(int row, int k) const {
    const auto [t, channel] = split_k<D>(tap, k);
    const int x = row % shape::kWidth * D.strides.x + t % D.kernel_dimensions.x * D.dilations.x + offset.x -
                  window_size::centre(D.kernel_dimensions.x, D.dilations.x);
    const int y = row / shape::kWidth % shape::kHeight * D.strides.y + t / D.kernel_dimensions.x * D.dilations.y +
                  offset.y - window_size::centre(D.kernel_dimensions.y, D.dilations.y);
    const int n = row / (shape::kWidth * shape::kHeight);
    const bool inside = x >= 0 && y >= 0 && x < int(source.get_extent(1)) && y < int(source.get_extent(2)) &&
                        n < int(source.get_extent(3)) && channel < int(source.get_extent(0)) && row < shape::kRows;
    return inside ? value_type(source.mpsx_data()[at(channel, 0) + at(x, 1) + at(y, 2) + at(n, 3)]) : value_type(0);
  }

 private:
  MPSX_FN long at(int i, size_t d) const { return long(i) * long(source.get_stride(d)); }
};
// Reads the weight at index k for one output channel.
template <convolution2d_descriptor D, class X>
struct weights_reader {
  typedef convolution_shape<D> shape;
  typedef typename X::value_type value_type;
  const X& source;
  int tap;
  MPSX_FN value_type get(int k, int output) const {
    const auto [t, channel] = split_k<D>(tap, k);
    const int x = t % D.kernel_dimensions.x, y = t / D.kernel_dimensions.x;
    const bool inside = x < int(source.get_extent(2)) && y < int(source.get_extent(3)) &&
                        channel < int(source.get_extent(1)) && output < int(source.get_extent(0)) &&
                        output < shape::kOutputs;
    return inside ? value_type(source.mpsx_data()[at(output, 0) + at(channel, 1) + at(x, 2) + at(y, 3)])
                  : value_type(0);
  }

 private:
  MPSX_FN long at(int i, size_t d) const { return long(i) * long(source.get_stride(d)); }
};

// Calls f(i, element) for each element of `destination` that this thread holds.
template <class L, class C, class F>
MPSX_FN void visit_outputs(C& destination, int thread, F f) {
  MPSX_UNROLL_LOOP
  for (int i = 0; i < L::kCapacity; ++i) {
    metal::array<long, 4> at;
    bool inside = true;
    for (size_t d = 0; d < 4; ++d) {
      at[d] = coordinates<L>::at(thread, i, d);
      inside = inside && at[d] < long(coordinates<L>::extents_type::static_extent(d));
      if constexpr (is_tensor_v<C>) inside = inside && at[d] < long(destination.get_extent(d));
    }
    if constexpr (is_cooperative_v<C>) {
      if (inside) f(i, destination[i]);
    } else {
      if (inside) f(i, destination[at]);
    }
  }
}

template <convolution2d_descriptor D, class Scope, class A, class W, class C>
#ifdef MPSX_CUDA
MPSX_FN
#else
__attribute__((noinline)) static
#endif
    void convolve(const A& activation, const W& weights, C& destination, metal::int2 offset, const char* file,
                  int line) {
  typedef convolution_shape<D> shape;
  typedef convolution_layout<D, Scope> L;
  typedef typename destination_layout<shape::kProduct, Scope>::type Base;  // accumulator_blocks has no case for L
  typedef element_of_t<C> T;
  typedef metal::conditional_t<is_int8<element_of_t<A>> && is_int8<element_of_t<W>>, int, float> S;
  // Integer sums are added to a float destination only at the end.
  constexpr bool kAddsLast = shape::kAccumulates && !metal::is_same_v<S, T> && metal::is_same_v<S, int>;
  const int thread = scope_thread<Scope>();
  const int channels = shape::kChannels > 0 ? shape::kChannels : int(activation.get_extent(0));
#ifdef MPSX_CUDA
  staging_memory<Scope, 0>();  // tells the driver the number of threads
#else
  const peers<Scope> all(nullptr, nullptr, "convolution2d::run", file, line);
#endif
  S sums[L::kCapacity] = {};
  if constexpr (shape::kAccumulates && !kAddsLast)
    visit_outputs<L>(destination, thread, [&](int i, auto& v) __attribute__((always_inline)) { sums[i] = S(v); });
#pragma unroll 1
  for (int tap = 0; tap < (joins_taps<D> ? 1 : shape::kTaps); ++tap) {
    const window_reader<D, A> a{activation, offset, tap};
    const weights_reader<D, W> b{weights, tap};
    accumulate_blocks<shape::kProduct, Base>(a, b, thread, joins_taps<D> ? channels * shape::kTaps : channels, sums);
  }
  visit_outputs<L>(destination, thread, [&](int i, auto& v) __attribute__((always_inline)) {
    if constexpr (kAddsLast)
      v = T(float(sums[i]) + float(v));
    else
      v = T(sums[i]);
  });
}
}  // namespace mpsx

namespace mpp {
namespace tensor_ops {
template <convolution2d_descriptor Descriptor, class Scope, class... Arguments>
class convolution2d {
  static_assert(mpsx::scope_size<Scope>::simdgroups > 0, "convolution2d: the scope must be execution_simdgroups<N>");
  static_assert(Descriptor.groups == 1, "convolution2d: only one group is supported; slice the channels of each group");
  static_assert(mpsx::convolution_shape<Descriptor>::kRows > 0 && Descriptor.destination_dimensions.x > 0,
                "convolution2d: the destination's dimensions must be positive");
  static_assert(Descriptor.kernel_dimensions.x > 0 && Descriptor.kernel_dimensions.y > 0,
                "convolution2d: the kernel's dimensions must be positive");
  static_assert(Descriptor.strides.x > 0 && Descriptor.strides.y > 0 && Descriptor.dilations.x > 0 &&
                    Descriptor.dilations.y > 0,
                "convolution2d: strides and dilations must be positive");

 public:
  static constexpr convolution2d_descriptor descriptor = Descriptor;
  typedef Scope scope;
  typedef mpsx::convolution_layout<Descriptor, Scope> mpsx_destination;

  template <class Activation, class Weights, class T, class C = int, class... A>
  using cooperative_tensor_destination_t = mpsx::cooperative<T, mpsx_destination, C>;

  // Shifts all windows by (x, y). Without a shift, the center of a window, rounded up, is at the output position times
  // the stride.
  MPSX_FN void set_offsets(metal::int2 offset) { offset_ = offset; }

  template <class Activation, class Weights, class T, class C = int, class... A>
  MPSX_FN auto get_destination_cooperative_tensor() const {
    return mpsx::cooperative<T, mpsx_destination, C>();
  }

  // All threads of the scope must call this. Reads outside a tensor's extents return zero, and writes outside them are
  // skipped.
  template <class Activation, class Weights, class Destination, class... A>
  MPSX_FN void run(Activation& activation, Weights& weights, Destination& destination, MPSX_CALL_SITE) const {
    typedef metal::remove_cv_t<Destination> C;
    static_assert(mpsx::is_tensor_v<Activation>, "convolution2d: the activation must be a tensor");
    static_assert(mpsx::is_tensor_v<Weights>, "convolution2d: the weights must be a tensor");
    static_assert(mpsx::is_tensor_v<C> || mpsx::is_cooperative_v<C>, "convolution2d: the destination must be a tensor");
    static_assert(!mpsx::has_const_elements<Activation> && !mpsx::has_const_elements<Weights>,
                  "convolution2d: expected operands without const elements, as in Apple's headers; create the tensor "
                  "from a pointer without const");
    static_assert(Activation::get_rank() == 4 && Weights::get_rank() == 4 && C::get_rank() == 4,
                  "convolution2d: expected tensors of rank 4");
    static_assert(!mpsx::is_packed<Activation> && !mpsx::is_packed<Weights> &&
                      mpsx::is_supported_matmul<mpsx::element_of_t<Activation>, mpsx::element_of_t<Weights>,
                                                mpsx::element_of_t<C>>,
                  "convolution2d does not support this combination of element types");
    if constexpr (mpsx::is_cooperative_v<C>)
      static_assert(metal::is_same_v<typename C::mpsx_layout, mpsx_destination>,
                    "convolution2d: the destination is a cooperative tensor of another operation");
    mpsx::convolve<Descriptor, Scope>(activation, weights, destination, offset_, mpsx_file, mpsx_line);
  }

 private:
  metal::int2 offset_ = metal::int2(0);
};
}  // namespace tensor_ops
}  // namespace mpp
