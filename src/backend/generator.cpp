#include "backend/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Utils.h>

#include <cstring>
#include <mutex>

#include "backend/device.h"
#include "runtime/launch_plan.h"
#include "runtime/launch_recording.h"

namespace mpsx::backend {

// The state that generators linked by graphsafe_get_state share.
struct Generator::State {
  uint64_t seed = c10::default_rng_seed_val;
  uint64_t offset = 0;
};

namespace {

// As on CUDA, the state consists of the seed and the offset. DTensor and other parts of PyTorch access both of them.
constexpr int64_t kStateBytes = 2 * sizeof(uint64_t);
// Older versions of mpsx appended the state of a CPU generator, which is ignored.
constexpr int64_t kOldStateBytes = 5072;
// As on CUDA, offsets are multiples of 4. DTensor relies on this.
constexpr uint64_t kOffsetAlignment = 4;

Generator* implementation(const at::Generator& generator) {
  TORCH_CHECK(generator.defined() && is_mpsx(generator.device()),
              "generator: expected an mpsx generator, got one for ",
              generator.defined() ? generator.device().str() : "nothing");
  return static_cast<Generator*>(generator.unsafeGetGeneratorImpl());
}

}  // namespace

Generator::Generator() : Generator(std::make_shared<State>()) {}
Generator::Generator(std::shared_ptr<State> state)
    : GeneratorImpl(this_device(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), state_(std::move(state)) {}

c10::DeviceType Generator::device_type() { return kDeviceType; }

void Generator::set_current_seed(uint64_t seed) {
  state_->seed = seed;
  state_->offset = 0;
}

uint64_t Generator::current_seed() const { return state_->seed; }

uint64_t Generator::seed() {
  const uint64_t random = c10::detail::getNonDeterministicRandom();
  set_current_seed(random);
  return random;
}

void Generator::set_offset(uint64_t offset) { state_->offset = offset; }
uint64_t Generator::get_offset() const { return state_->offset; }

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  auto saved = at::detail::empty_cpu({kStateBytes}, c10::kByte);
  auto* bytes = saved.mutable_data_ptr<uint8_t>();
  std::memcpy(bytes, &state_->seed, sizeof(uint64_t));
  std::memcpy(bytes + sizeof(uint64_t), &state_->offset, sizeof(uint64_t));
  return saved.getIntrusivePtr();
}

void Generator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == kStateBytes || state.numel() == kOldStateBytes,
              "set_state: expected an mpsx generator state of ", kStateBytes, " bytes, got ", state.numel());
  const auto* bytes = static_cast<const uint8_t*>(state.data());
  std::memcpy(&state_->seed, bytes, sizeof(uint64_t));
  std::memcpy(&state_->offset, bytes + sizeof(uint64_t), sizeof(uint64_t));
}

void Generator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) {
  TORCH_CHECK(other && is_mpsx(other->device()), "graphsafe_set_state: expected an mpsx generator");
  state_ = static_cast<Generator*>(other.get())->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> Generator::graphsafe_get_state() const {
  return c10::intrusive_ptr<c10::GeneratorImpl>::unsafe_steal_from_new(new Generator(state_));
}

Generator* Generator::clone_impl() const { return new Generator(std::make_shared<State>(*state_)); }

PhiloxState Generator::next(uint64_t increment) {
  const PhiloxState now{state_->seed, state_->offset};
  state_->offset += (increment + kOffsetAlignment - 1) / kOffsetAlignment * kOffsetAlignment;
  return now;
}

const at::Generator& default_generator() {
  static auto* generator = new at::Generator(new_generator());
  return *generator;
}

at::Generator new_generator() { return at::make_generator<Generator>(); }

PhiloxState next_philox(const std::optional<at::Generator>& generator, uint64_t increment) {
  const auto& chosen = generator && generator->defined() ? *generator : default_generator();
  if (chosen.unsafeGetGeneratorImpl() != default_generator().unsafeGetGeneratorImpl())
    runtime::reject_recording("a random number generator other than the default one");
  auto* impl = implementation(chosen);
  std::lock_guard lock(impl->mutex_);
  return impl->next(runtime::active_plan ? 0 : increment);
}

at::Generator cpu_generator(const at::Generator& mpsx) {
  const PhiloxState state = next_philox(mpsx, 1);
  // Multiplying by an odd number (2^64 divided by the golden ratio) maps every offset to a different seed. Offset 0
  // maps to the user's seed.
  return at::detail::createCPUGenerator(state.seed + state.offset * 0x9E3779B97F4A7C15u);
}

}  // namespace mpsx::backend
