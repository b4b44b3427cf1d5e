// The driver against a fake libcuda: `driver_test DIRECTORY CASE`, or with no case the names of all.
#include <dlfcn.h>

#include "check.h"
#include "driver/cuda/inflate.h"

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

CASE(tells_what_it_is) {
  const Device device(directory);
  CHECK(device.driver->info().name == "cuda" && device.driver->info().device == "Fake GPU 0");
  CHECK(device.driver->info().isa == "sm_90" && device.driver->info().compiler == "by hand");
  CHECK(device.driver->info().total_memory == gpu().total);
  const Traits& traits = device.driver->traits();
  CHECK(traits.memory == Memory::managed && traits.asynchronous && traits.cores == 132 && traits.dense_bytes == 16);
  const std::vector<std::string> names{"large", "limited", "plain", "scaled", "with threadgroup"};
  CHECK(device.driver->kernel_names() == names);
  CHECK(cuda_trouble().empty());
}

CASE(chosen_threads) {
  setenv("MPSX_CUDA_THREADS", "48", 1);
  CHECK(Device(directory).driver->traits().group_threads == 48);
  setenv("MPSX_CUDA_THREADS", "1025", 1);
  THROWS(Device{directory}, "MPSX_CUDA_THREADS: expected a number from 1 to 1024, got \"1025\"");
}

CASE(no_gpu) {
  gpu().devices = 0;
  THROWS(Device{directory}, "MPSX_DRIVER=cuda", "no NVIDIA GPU");
  CHECK(cuda_trouble().find("no NVIDIA GPU") == 0);
}
CASE(old_driver) {
  gpu().version = 11080;
  THROWS(Device{directory}, "too old: made for CUDA 11.8, at least 12.0");
}
CASE(old_gpu) {
  gpu().major = 7;
  THROWS(Device{directory}, "Fake GPU 0 is too old", "7.0");
}
CASE(no_shared_memory) {
  gpu().concurrent = 0;
  THROWS(Device{directory}, "cannot share memory");
}
CASE(chosen_device) {
  gpu().devices = 3;
  setenv("MPSX_CUDA_DEVICE", "2", 1);
  CHECK(Device(directory).driver->info().device == "Fake GPU 2");
  setenv("MPSX_CUDA_DEVICE", "3", 1);
  THROWS(Device{directory}, "expected a number below 3, got \"3\"");
}
CASE(no_library) { THROWS(Device{directory + "/nowhere"}, "cannot read the kernels' PTX"); }

// Compressed by Python's zlib in ways that use all kinds of blocks; see test_cuda_driver.py.
CASE(inflates) {
  for (const char* kind : {"stored", "fixed", "dynamic"}) {
    const auto read = [&](const std::string& name) {
      std::string text;
      std::FILE* f = std::fopen((directory + "/" + name).c_str(), "rb");
      CHECK(f);
      for (int c; (c = std::fgetc(f)) != EOF;) text.push_back(char(c));
      std::fclose(f);
      return text;
    };
    const std::string plain = read("plain.txt"), packed = read(std::string(kind) + ".z");
    CHECK(cuda::inflate(packed, plain.size()) == plain);
    THROWS(cuda::inflate(packed, plain.size() - 1), "damaged");
    THROWS(cuda::inflate(std::string_view(packed).substr(0, packed.size() / 2), plain.size()), "damaged");
  }
}

}  // namespace test

int main(int count, char** words) {
  for (const test::Case& c : test::cases()) {
    if (count < 3) {
      std::puts(c.name);
    } else if (std::string(words[2]) == c.name) {
      c.run(words[1]);
      for (const std::string& broken : test::gpu().wrong) std::fprintf(stderr, "broken rule: %s\n", broken.c_str());
      return test::gpu().wrong.empty() ? 0 : 1;
    }
  }
  return count < 3 ? 0 : 2;
}
