#include "backend/engine.h"

#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <optional>

#include "runtime/device.h"

namespace mpsx::backend {
namespace {

using torch::autograd::Engine;

// While this object exists, backward passes run only on the calling thread, as after set_multithreading_enabled(False).
class CallingThreadGuard {
 public:
  CallingThreadGuard() : before_(state().get_multithreading_enabled()) { state().set_multithreading_enabled(false); }
  ~CallingThreadGuard() { state().set_multithreading_enabled(before_); }
  CallingThreadGuard(const CallingThreadGuard&) = delete;
  CallingThreadGuard& operator=(const CallingThreadGuard&) = delete;

 private:
  static c10::AutogradState& state() { return c10::AutogradState::get_tls_state(); }
  bool before_;
};

// The default engine for backward passes started from C++, for example by at::Tensor::backward or extensions. It
// delegates to Python's engine. Python code calls that engine directly, so python/mpsx/device/backward.py turns off
// multithreading for it.
class CallingThreadEngine final : public Engine {
 public:
  explicit CallingThreadEngine(Engine& engine) : engine_(engine) { start_device_threads(); }

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs, bool keep_graph,
                                         bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    std::optional<CallingThreadGuard> guard;
    if (runtime::kernels_run_on_caller()) guard.emplace();
    return engine_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return engine_.make_anomaly_metadata();
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return engine_.get_default_saved_variable_hooks();
  }

 private:
  Engine& engine_;
};

CallingThreadEngine* calling_thread_engine = nullptr;  // never destroyed, because threads may use it at process exit

}  // namespace

void register_engine() {
  if (!runtime::expects_cpu_driver()) return;
  Engine& engine = Engine::get_default_engine();
  engine.initialize_device_threads_pool();
  calling_thread_engine = new CallingThreadEngine(engine);
  torch::autograd::set_default_engine_stub([]() -> Engine& { return *calling_thread_engine; });
}

}  // namespace mpsx::backend
