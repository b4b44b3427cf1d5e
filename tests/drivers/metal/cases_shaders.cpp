// Users' kernels: function constants, reflection, and errors about missing arguments.
#include "check.h"
#include "driver/reflection.h"

using namespace test;

namespace {

const char* const kConstants = R"(#include <metal_stdlib>
using namespace metal;
constant bool has_bias [[function_constant(0)]];
constant float scale [[function_constant(3)]];
constant int3 tile [[function_constant(4)]];
constant half small [[function_constant(6)]];
constant bfloat brain [[function_constant(8)]];
constant ulong wide [[function_constant(9)]];
constant char mode [[function_constant(5)]];
constant int mode_or_7 = is_function_constant_defined(mode) ? mode : 7;
kernel void axpy(device float* y, device const float* x,
                 device const float* bias [[buffer(2), function_constant(has_bias)]],
                 uint i [[thread_position_in_grid]]) {
  y[i] = scale * x[i] + (has_bias ? bias[i] : 0.0f) + 100 * tile.x + 1000 * tile.z;
}
kernel void types(device float* y, uint i [[thread_position_in_grid]]) {
  y[i] = float(small) + float(brain) + float(wide >> 40) + float(mode_or_7);
}
kernel void shared(device float* y [[buffer(1)]], threadgroup float* a [[threadgroup(0)]],
                   threadgroup float* b [[threadgroup(2)]], uint i [[thread_position_in_threadgroup]]) {
  a[i] = y[i];
  b[i] = 2;
  y[i] = a[i] * b[i];
}
)";

void run(Device& device, const Library& library, const char* key, const std::vector<Argument>& arguments) {
  const Kernel* kernel = library.kernel(key);
  CHECK(kernel);
  device.driver->dispatch(device.stream, *kernel, arguments.data(), arguments.size(), {{4}, {4}, true, 1});
  device.wait();
}

}  // namespace

CASE(sets_function_constants) {
  Array<float> y(device, 4), x(device, 4);
  for (int i = 0; i < 4; ++i) x[i] = float(i);
  const auto library = device.driver->load_library({"a shader", "", kConstants});
  run(device, *library, "axpy|has_bias=0|scale=0.5|tile=1,2,3", {y.argument(), x.argument()});
  CHECK(y[0] == 3100 && y[3] == 3101.5);
  run(device, *library, "axpy|0=1|3=2|4=0,0,0", {y.argument(), x.argument(), x.argument()});  // constants by index
  CHECK(y[0] == 0 && y[3] == 9);
  run(device, *library, "types|brain=-2.5|small=0.333|wide=18446744073709551615", {y.argument()});
  CHECK(y[1] == 0.3330078125f - 2.5f + 16777215.0f + 7);
  run(device, *library, "types|brain=0|small=0|wide=0|mode=-3", {y.argument()});
  CHECK(y[1] == -3);
  CHECK(library->kernel("axpy|0=1|3=2|4=0,0,0") == library->kernel("axpy|0=1|3=2|4=0,0,0"));
}

CASE(reports_function_constant_errors) {
  const auto library = device.driver->load_library({"a shader", "", kConstants});
  THROWS(library->kernel("axpy"),
         "axpy: expected values for the function constants bool has_bias (index 0), "
         "float scale (index 3), int3 tile (index 4); set them with axpy.with_constants(…)");
  THROWS(library->kernel("axpy|scale=1|tile=1,2,3"), "constants bool has_bias (index 0); ");
  THROWS(library->kernel("axpy|bias=1"),
         "axpy: no function constant named bias; it has has_bias (bool, index 0), scale");
  THROWS(library->kernel("axpy|7=1"), "axpy: no function constant of index 7; it has");
  THROWS(library->kernel("axpy|has_bias=2"), "has_bias: expected a value of type bool, got 2");
  THROWS(library->kernel("axpy|tile=1,2"), "tile: expected a value of type int3, got 1,2");
  THROWS(library->kernel("axpy|0=1|has_bias=1"), "has_bias is given twice");
  THROWS(library->kernel("types|mode=128"), "mode: expected a value of type char, got 128");
}

CASE(describes_kernel_arguments) {
  Array<float> y(device, 4);
  const auto library = device.driver->load_library({"a shader", "", kConstants});
  const auto facts = [&](const char* key) -> const ReflectedKernel& {
    return dynamic_cast<const ReflectedKernel&>(*library->kernel(key));
  };
  CHECK(facts("axpy|0=0|3=1|4=1,1,1").buffers.size() == 2);
  const ReflectedKernel& axpy = facts("axpy|0=1|3=1|4=1,1,1");
  CHECK(axpy.reflected && axpy.buffers.size() == 3 && axpy.threadgroups.empty());
  CHECK(axpy.buffers[0].name == "y" && axpy.buffers[2].name == "bias" && axpy.buffers[2].index == 2);
  CHECK(!static_cast<const ReflectedKernel&>(device.kernel("add")).reflected);
  const ReflectedKernel& shared = facts("shared");
  CHECK(shared.buffers.size() == 1 && shared.threadgroups.size() == 2 && shared.threadgroups[1].index == 2);

  const Argument absent{Argument::Kind::buffer, nullptr, 0};
  THROWS(run(device, *library, "axpy|0=1|3=1|4=1,1,1", {y.argument(), y.argument()}),
         "expected 3 buffers, got 2: missing argument bias [[buffer(2)]]");
  THROWS(run(device, *library, "axpy|0=1|3=1|4=1,1,1", {y.argument(), absent, y.argument()}),
         "missing argument x [[buffer(1)]]");
  THROWS(run(device, *library, "shared", {absent, y.argument(), threadgroup(16)}),
         "missing argument b [[threadgroup(2)]]");
  THROWS(run(device, *library, "shared", {absent, y.argument()}), "missing argument a [[threadgroup(0)]]");
  for (int i = 0; i < 4; ++i) y[i] = float(i);
  run(device, *library, "shared", {absent, y.argument(), threadgroup(16), threadgroup(0), threadgroup(16)});
  CHECK(y[3] == 6);
  run(device, *library, "axpy|0=0|3=1|4=0,0,0",
      {y.argument(), y.argument(), absent, y.argument()});  // one argument more than the kernel has
  CHECK(y[3] == 6);
}

CASE(distinguishes_compile_errors) {
  test::throws<SyntaxError>([&] { device.driver->load_library({"a shader", "", "kernel void wrong("}); },
                            {"cannot compile a shader", "program_source:1"}, __LINE__);
}

// The compiler options are those of PyTorch's compile_shader. The user's source is passed unchanged.
CASE(compiles_like_pytorch) {
  const auto compile = [&](const char* macos) {
    if (macos) mpsx_emulation_fail(macos, 0, 1);
    device.driver->load_library({"a shader", "", kConstants});
  };
  compile(nullptr);
  CHECK(compiled("3.1 safe precise"));
  compile("macos_15");
  CHECK(compiled("3.2 safe precise"));
  compile("macos_26");
  CHECK(compiled("4.0 safe precise"));
  CHECK(mpsx_emulation_compiled() == std::string("4.0 safe precise\n") + kConstants);
  setenv("PYTORCH_MPS_FAST_MATH", "1", 1);
  compile("macos_15");
  CHECK(compiled("3.2 fast fast"));
  mpsx_emulation_fail("macos_14", 0, 1);
  compile(nullptr);
  CHECK(compiled("3.1 fast fast"));
  CHECK(device.driver->kernel("add"));
  setenv("PYTORCH_MPS_FAST_MATH", "0", 1);
  compile(nullptr);
  CHECK(compiled("3.1 safe precise"));
  unsetenv("PYTORCH_MPS_FAST_MATH");
}
