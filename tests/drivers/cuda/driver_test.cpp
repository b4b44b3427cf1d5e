// Tests the CUDA driver with a fake libcuda: `driver_test DIRECTORY CASE`. If no case is given, prints the names of all
// cases.
#include <dlfcn.h>

#include "check.h"

namespace test {

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

fake::Control& gpu() {
  static fake::Control* control = [] {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(library);
    return reinterpret_cast<fake::Control* (*)()>(dlsym(library, "fake_cuda"))();
  }();
  return *control;
}

CASE(describes_the_device) {
  const Device device(directory);
  CHECK(device.driver->info().name == "cuda" && device.driver->info().device == "Fake GPU 0");
  CHECK(device.driver->info().isa == "sm_90a" && device.driver->info().compiler == "by hand");
  CHECK(device.driver->info().total_memory == gpu().total);
  const Traits& traits = device.driver->traits();
  CHECK(traits.memory == Memory::managed && traits.asynchronous && traits.cores == 132 && traits.vector_bytes == 16);
  const std::vector<std::string> names{"large", "limited", "plain", "scaled", "with threadgroup"};
  CHECK(device.driver->kernel_names() == names);
  CHECK(cuda_unavailable_reason().empty());
}

CASE(chosen_threads) {
  setenv("MPSX_CUDA_THREADS", "48", 1);
  CHECK(Device(directory).driver->traits().threadgroup_size == 48);
  setenv("MPSX_CUDA_THREADS", "1025", 1);
  THROWS(Device{directory}, "MPSX_CUDA_THREADS: expected a number from 1 to 1024, got \"1025\"");
}

CASE(no_gpu) {
  gpu().devices = 0;
  THROWS(Device{directory}, "MPSX_DRIVER=cuda", "no NVIDIA GPU");
  CHECK(cuda_unavailable_reason().find("no NVIDIA GPU") == 0);
}
CASE(old_driver) {
  gpu().version = 11080;
  THROWS(Device{directory}, "expected an NVIDIA driver for CUDA 12.0 or later, got CUDA 11.8");
}
CASE(old_gpu) {
  gpu().major = 7;
  THROWS(Device{directory}, "Fake GPU 0: expected compute capability 8.0", "got 7.0");
}
CASE(no_shared_memory) {
  gpu().concurrent = 0;
  THROWS(Device{directory}, "concurrent managed access");
}
CASE(chosen_device) {
  gpu().devices = 3;
  setenv("MPSX_CUDA_DEVICE", "2", 1);
  CHECK(Device(directory).driver->info().device == "Fake GPU 2");
  setenv("MPSX_CUDA_DEVICE", "3", 1);
  THROWS(Device{directory}, "expected a number from 0 to 2, got \"3\"");
}
CASE(no_library) { THROWS(Device{directory + "/nowhere"}, "cannot read the kernels' PTX"); }
CASE(damaged_library) {
  Device device(directory + "/damaged");
  THROWS(device.driver->kernel("plain"), "the PTX library is damaged");
}

}  // namespace test

int main(int argc, char** argv) {
  for (const test::Case& c : test::cases()) {
    if (argc < 3) {
      std::puts(c.name);
    } else if (std::string(argv[2]) == c.name) {
      c.run(argv[1]);
      for (const std::string& broken : test::gpu().wrong) std::fprintf(stderr, "broken rule: %s\n", broken.c_str());
      return test::gpu().wrong.empty() ? 0 : 1;
    }
  }
  return argc < 3 ? 0 : 2;
}
