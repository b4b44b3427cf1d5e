// Kernels with Metal 4 tensors: arguments, ordering relative to other work, and failures.
#include "check.h"
#include "driver/reflection.h"
#include "driver/tensor_argument.h"

using namespace test;

namespace {

const char* const kSource = R"(#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
kernel void copy(tensor<device float, dextents<int, 2>> to [[buffer(1)]],
                 tensor<device float, dextents<int, 2>> from [[buffer(2)]], constant float& factor [[buffer(0)]],
                 device float* sizes [[buffer(3)]], uint2 i [[thread_position_in_grid]]) {
  to[i.x, i.y] = factor * from[i.x, i.y];
  if (i.x + i.y == 0) {
    sizes[0] = from.get_extent(0);
    sizes[1] = from.get_extent(1);
    sizes[2] = from.get_stride(1);
  }
}
kernel void product(tensor<device half, dextents<int, 2>> a, tensor<device half, dextents<int, 2>> b,
                    tensor<device float, dextents<int, 2>> c, threadgroup float* scratch [[threadgroup(0)]]) {
  constexpr auto what = matmul2d_descriptor(16, 32, 16);
  matmul2d<what, execution_simdgroups<2>> op;
  op.run(a, b, c);
  scratch[0] = 1;
}
kernel void product_inline(device half* a, device half* b, device float* c,
                           uint group [[threadgroup_position_in_grid]]) {
  constexpr auto what = matmul2d_descriptor(16, 32, 16);
  matmul2d<what, execution_simdgroup> op;
  auto left = tensor(a, dextents<int, 2>(16, 16)), right = tensor(b, dextents<int, 2>(32, 16));
  auto sum = tensor(c, dextents<int, 2>(32, 16));
  if (group == 0) op.run(left, right, sum);
}
)";

template <typename T>
TensorArgument tensor(Array<T>& memory, const char* element, std::vector<int64_t> sizes, std::vector<int64_t> strides,
                      size_t first = 0) {
  TensorArgument t;
  for (size_t d = 0; d < sizes.size(); ++d) t.sizes[d] = sizes[d], t.strides[d] = strides[d];
  t.rank = uint32_t(sizes.size());
  t.element = element;
  t.handle = memory.buffer.handle;
  t.offset = first * sizeof(T);
  return t;
}

void run(Device& device, const Library& library, const char* name, const std::vector<Argument>& arguments, Size grid,
         Size group) {
  const Kernel* kernel = library.kernel(name);
  CHECK(kernel);
  device.driver->dispatch(device.stream, *kernel, arguments.data(), arguments.size(), {grid, group, true, 1});
}

}  // namespace

CASE(binds_tensors) {
  Array<float> x(device, 64), y(device, 64), sizes(device, 3);
  for (int i = 0; i < 64; ++i) x[i] = float(i), y[i] = -1;
  const auto library = device.driver->load_library({"a shader", "", kSource});
  const auto& facts = dynamic_cast<const ReflectedKernel&>(*library->kernel("copy"));
  CHECK(facts.buffers.size() == 2 && facts.tensors.size() == 2);
  CHECK(facts.tensors[0].index == 1 && facts.tensors[0].element == "float" && facts.tensors[0].sizes.size() == 2);
  const float two = 2;
  const TensorArgument from = tensor(x, "float", {3, 4}, {1, 10}, 5), to = tensor(y, "float", {3, 4}, {1, 3});
  run(device, *library, "copy", {value(two), value(to), value(from), sizes.argument()}, {3, 4}, {2, 2});
  device.wait();
  CHECK(sizes[0] == 3 && sizes[1] == 4 && sizes[2] == 10);
  CHECK(y[0] == 10 && y[2] == 14 && y[3] == 30 && y[11] == 74 && y[12] == -1);
}

CASE(orders_tensors_with_other_work) {
  Array<float> x(device, 32), y(device, 32), sizes(device, 3);
  const auto library = device.driver->load_library({"a shader", "", kSource});
  const TensorArgument from = tensor(x, "float", {8, 4}, {1, 8}), to = tensor(y, "float", {8, 4}, {1, 8});
  const float one = 1, two = 2;
  for (int i = 0; i < 5; ++i) {
    const float start = float(i);
    device.launch("fill", {x.argument(), value(start)}, {32});
    run(device, *library, "copy", {value(two), value(to), value(from), sizes.argument()}, {8, 4}, {8, 4});
    run(device, *library, "copy", {value(two), value(from), value(to), sizes.argument()}, {8, 4}, {8, 4});
    device.launch("add", {y.argument(), x.argument(), x.argument()}, {32});
  }
  (void)one;
  device.wait();
  CHECK(x[31] == 16 && y[31] == 32);
}

CASE(multiplies_tensors) {
  Array<_Float16> a(device, 256), b(device, 512);
  Array<float> c(device, 512);
  for (int i = 0; i < 256; ++i) a[i] = _Float16(i % 16 == i / 16 ? 2 : 0);
  for (int i = 0; i < 512; ++i) b[i] = _Float16(i);
  const auto library = device.driver->load_library({"a shader", "", kSource});
  const TensorArgument left = tensor(a, "half", {16, 16}, {1, 16}), right = tensor(b, "half", {32, 16}, {1, 32}),
                       sum = tensor(c, "float", {32, 16}, {1, 32});
  const unsigned long pipelines = mpsx_emulation_pipelines();
  for (int i = 0; i < 3; ++i)
    run(device, *library, "product", {value(left), value(right), value(sum), threadgroup(4)}, {64}, {64});
  device.wait();
  CHECK(c[0] == 0 && c[511] == 1022);
  // Two pipelines are compiled: one with and one without a required number of threads.
  CHECK(mpsx_emulation_pipelines() == pipelines + 2);
  c[511] = 0;
  run(device, *library, "product_inline", {a.argument(), b.argument(), c.argument()}, {64}, {32});
  // The last threadgroup is smaller than the others.
  run(device, *library, "product_inline", {a.argument(), b.argument(), c.argument()}, {48}, {32});
  device.wait();
  CHECK(c[511] == 1022 && mpsx_emulation_pipelines() == pipelines + 4);
}

CASE(works_where_threads_cannot_be_required) {
  Array<_Float16> a(device, 256), b(device, 512);
  Array<float> c(device, 512);
  for (int i = 0; i < 512; ++i) b[i] = _Float16(1), a[i / 2] = _Float16(1);
  mpsx_emulation_fail("no_metal_4", 0, 1000);
  const auto library = device.driver->load_library({"a shader", "", kSource});
  run(device, *library, "product_inline", {a.argument(), b.argument(), c.argument()}, {32}, {32});
  device.wait();
  const TensorArgument left = tensor(a, "half", {16, 16}, {1, 16}), right = tensor(b, "half", {32, 16}, {1, 32}),
                       sum = tensor(c, "float", {32, 16}, {1, 32});
  THROWS(run(device, *library, "product", {value(left), value(right), value(sum), threadgroup(4)}, {64}, {64}),
         "command queue of Metal 4");
  mpsx_emulation_fail("no_metal_4", 0, 0);
  CHECK(c[511] == 16);
}

CASE(says_what_is_wrong_with_tensors) {
  Array<float> x(device, 64), sizes(device, 3);
  const auto library = device.driver->load_library({"a shader", "", kSource});
  const float one = 1;
  const TensorArgument good = tensor(x, "float", {4, 4}, {1, 4});
  const auto copy = [&](const Argument& from) {
    run(device, *library, "copy", {value(one), value(good), from, sizes.argument()}, {4, 4}, {4, 4});
  };
  THROWS(copy(x.argument()), "copy: parameter 'from' (buffer 2): expected a tensor, got a buffer");
  const TensorArgument rank = tensor(x, "float", {4}, {1}), type = tensor(x, "half", {4, 4}, {1, 4}),
                       transposed = tensor(x, "float", {4, 4}, {4, 1}), empty = tensor(x, "float", {0, 4}, {1, 4}),
                       large = tensor(x, "float", {8, 9}, {1, 8}), expanded = tensor(x, "float", {4, 4}, {1, 0});
  THROWS(copy(value(rank)), "expected a tensor of rank 2 and float with extents any, any, got rank 1 and float");
  THROWS(copy(value(type)), "got rank 2 and half with extents 4, 4");
  for (const TensorArgument* t : {&transposed, &empty, &expanded})
    THROWS(copy(value(*t)), "stride 1 in dimension 0", "pass tensor.contiguous()");
  THROWS(copy(value(large)), "copy: Metal cannot create a tensor for buffer 2: the tensor exceeds its buffer");
  // The stride of a dimension of size 1 does not matter.
  const TensorArgument row = tensor(x, "float", {1, 1}, {7, 3});
  run(device, *library, "copy", {value(one), value(row), value(row), sizes.argument()}, {1, 1}, {1, 1});
  device.wait();
}

CASE(reports_failures_of_tensors) {
  Array<float> x(device, 16), sizes(device, 3);
  const auto library = device.driver->load_library({"a shader", "", kSource});
  const float one = 1;
  const TensorArgument t = tensor(x, "float", {4, 4}, {1, 4});
  mpsx_emulation_fail("tensor_commands", 0, 1);
  run(device, *library, "copy", {value(one), value(t), value(t), sizes.argument()}, {4, 4}, {4, 4});
  THROWS(device.wait(), "the GPU failed in mpsx", "injected timeout", "kernel copy");
  run(device, *library, "copy", {value(one), value(t), value(t), sizes.argument()}, {4, 4}, {4, 4});
  device.wait();
}

CASE(explains_sources_with_tensors_on_older_systems) {
  mpsx_emulation_fail("compile", 0, 1);
  THROWS(device.driver->load_library({"a shader", "", kSource}), "injected",
         "expected macOS 26 or later and a GPU of the family Metal 4, got macOS 14.0 and Emulated Apple GPU");
  mpsx_emulation_fail("compile", 0, 1);
  mpsx_emulation_fail("macos_26", 0, 1000);
  try {
    device.driver->load_library({"a shader", "", kSource});
    CHECK(false);
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("macOS") == std::string::npos);
  }
  CHECK(compiled("4.0 safe precise"));
  mpsx_emulation_fail("macos_26", 0, 0);
}
