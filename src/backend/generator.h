// The random number generator. Our kernels use its Philox counter. An operator that falls back uses a CPU generator
// that is seeded with this counter. All random numbers depend only on the seed and the offset.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace mpsx::backend {

struct PhiloxState {
  uint64_t seed;
  uint64_t offset;  // in 128-bit Philox blocks
};

// Reserves `increment` Philox blocks and returns the state from before. Without a generator, uses the default
// generator.
PhiloxState next_philox(const std::optional<at::Generator>& generator, uint64_t increment);

class Generator final : public c10::GeneratorImpl {
 public:
  Generator();

  static c10::DeviceType device_type();
  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

  PhiloxState next(uint64_t increment);

 private:
  struct State;
  explicit Generator(std::shared_ptr<State> state);
  Generator* clone_impl() const override;
  std::shared_ptr<State> state_;
};

const at::Generator& default_generator();
at::Generator new_generator();

// Returns a CPU generator for one operator call. It is seeded with the next offset of an mpsx generator. Directly after
// manual_seed, it generates the same numbers as the CPU's default generator.
at::Generator cpu_generator(const at::Generator& mpsx);

}  // namespace mpsx::backend
