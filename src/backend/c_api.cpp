#include "c_api.h"

#include <c10/util/Exception.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/fallback_policy.h"
#include "backend/mps_alias.h"
#include "backend/operator_info.h"
#include "backend/register.h"
#include "backend/shared_device.h"
#include "driver/kernel_profile.h"
#include "driver/tensor_argument.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/kernel_library.h"
#include "runtime/launch_plan.h"
#include "runtime/profile.h"
#include "runtime/shader.h"
#include "runtime/stream.h"
#include "runtime/tuning.h"

using namespace mpsx;

namespace {

thread_local int error_kind = MPSX_ERROR;

// Runs `body` and converts any exception to an error message.
template <typename F>
const char* guarded(F&& body) noexcept {
  static thread_local std::string message;
  error_kind = MPSX_ERROR;
  try {
    body();
    return nullptr;
  } catch (const c10::IndexError& e) {
    error_kind = MPSX_INDEX_ERROR;
    message = e.what_without_backtrace();
  } catch (const c10::OutOfMemoryError& e) {
    error_kind = MPSX_OUT_OF_MEMORY;
    message = e.what_without_backtrace();
  } catch (const c10::SyntaxError& e) {
    error_kind = MPSX_SYNTAX_ERROR;
    message = e.what_without_backtrace();
  } catch (const c10::AcceleratorError& e) {
    error_kind = MPSX_ACCELERATOR_ERROR;
    message = e.what_without_backtrace();
  } catch (const c10::Error& e) {
    message = e.what_without_backtrace();
  } catch (const std::exception& e) {
    message = e.what();
  } catch (...) {
    message = "unknown error";
  }
  return message.c_str();
}

mpsx_warn_callback python_callback = nullptr;

bool warn(const char* message, std::string* error) {
  const char* text = nullptr;
  const int warned = python_callback(message, &text);
  if (warned < 0) *error = text ? text : message;
  return warned != 0;
}

}  // namespace

struct mpsx_list {
  struct Row {
    std::string name, library;
    runtime::Route route = runtime::Route::native;
    uint64_t calls = 0, nanoseconds = 0, bytes = 0;
  };
  std::vector<Row> rows;
};

namespace {

// Creates a list that contains the rows added by `fill`.
template <typename F>
const char* make_list(mpsx_list** out, F&& fill) {
  return guarded([&] {
    auto list = std::make_unique<mpsx_list>();
    fill(list->rows);
    *out = list.release();
  });
}

const char* make_list_of_names(mpsx_list** out, std::vector<std::string> (*names)()) {
  return make_list(out, [&](auto& rows) {
    for (auto& name : names()) rows.emplace_back().name = std::move(name);
  });
}

using SharedShader = std::shared_ptr<runtime::Shader>;
SharedShader& shared(mpsx_shader* shader) { return *reinterpret_cast<SharedShader*>(shader); }

}  // namespace

extern "C" {

int mpsx_error_kind(void) { return error_kind; }

const char* mpsx_initialize(mpsx_find_libraries find) {
  return guarded([&] {
    backend::initialize([find]() -> std::string {
      const char* found = nullptr;
      TORCH_CHECK(find(&found), "mpsx: ", found);
      return found;
    });
  });
}

const char* mpsx_driver(mpsx_driver_info* out) {
  return guarded([&] {
    auto& driver = runtime::driver();
    const auto& info = driver.info();
    const auto& traits = driver.traits();
    *out = {info.name.c_str(),    info.device.c_str(),         info.compiler.c_str(),
            info.isa.c_str(),     traits.gpu_family.c_str(),   info.total_memory,
            driver.free_memory(), traits.simd_width,           traits.cores,
            traits.asynchronous,  traits.uses_process_memory()};
  });
}
int mpsx_driver_started(void) { return runtime::driver_started(); }
int mpsx_kernels_run_on_caller(void) { return runtime::kernels_run_on_caller(); }
const char* mpsx_cuda_unavailable_reason(void) {
  static thread_local std::string reason;
  reason = driver::cuda_unavailable_reason();
  return reason.c_str();
}

const char* mpsx_set_mps_alias(int on) {
  return guarded([on] { backend::set_mps_alias(on); });
}
int mpsx_has_mps_alias(void) { return backend::has_mps_alias(); }
int mpsx_is_device_index(int index) { return backend::is_device_index(index); }
int mpsx_device_count(void) { return backend::device_count(); }

const char* mpsx_synchronize(void) {
  return guarded([] { runtime::synchronize(); });
}
const char* mpsx_check_not_forked(void) {
  return guarded([] { runtime::check_not_forked(); });
}

const char* mpsx_memory(mpsx_memory_statistics* out) {
  return guarded([&] {
    const auto m = runtime::memory_statistics();
    *out = {m.allocated,   m.allocated_peak, m.reserved, m.reserved_peak, m.allocated_total,
            m.freed_total, m.allocations,    m.frees,    m.active_blocks, m.active_blocks_peak,
            m.segments,    m.segments_peak,  m.retries,  m.out_of_memory};
  });
}
const char* mpsx_empty_cache(void) {
  return guarded([] { runtime::empty_cache(); });
}
const char* mpsx_reset_peak_memory(void) {
  return guarded([] { runtime::reset_peak_statistics(); });
}
const char* mpsx_reset_accumulated_memory(void) {
  return guarded([] { runtime::reset_accumulated_statistics(); });
}
const char* mpsx_set_memory_limit(uint64_t bytes) {
  return guarded([&] { runtime::set_memory_limit(bytes); });
}
const char* mpsx_memory_limit(uint64_t* bytes) {
  return guarded([&] { *bytes = runtime::memory_limit(); });
}

void mpsx_set_fallback_mode(int mode) { backend::fallback_mode = static_cast<backend::FallbackMode>(mode); }
int mpsx_fallback_mode(void) { return static_cast<int>(backend::fallback_mode.load()); }
void mpsx_set_warn_callback(mpsx_warn_callback callback) {
  python_callback = callback;
  backend::set_warn_callback(callback ? &warn : nullptr);
}
void mpsx_reset_fallback(void) { backend::reset_fallback_counts(); }

const char* mpsx_fallback_list(mpsx_list** out) {
  return make_list(out, [](auto& rows) {
    for (auto& r : backend::fallback_counts())
      rows.push_back({r.name, "", runtime::Route::fallback, r.calls, r.nanoseconds, r.bytes});
  });
}
const char* mpsx_profile_list(mpsx_list** out) {
  return make_list(out, [](auto& rows) {
    for (auto& r : runtime::profile_rows()) rows.push_back({r.name, r.library, r.route, r.calls, r.nanoseconds, 0});
  });
}
const char* mpsx_kernel_list(mpsx_list** out) {
  return make_list_of_names(out, [] { return runtime::driver().kernel_names(); });
}
const char* mpsx_load_kernel(const char* name, mpsx_kernel_info* out) {
  return guarded([&] {
    const auto& kernel = *runtime::find_kernel(name).kernel;
    *out = {kernel.max_threads, kernel.simd_width, kernel.static_threadgroup_bytes};
  });
}
const char* mpsx_close_launch_log(mpsx_list** out) { return make_list_of_names(out, &runtime::close_launch_log); }
void mpsx_open_plan(void) {
  static thread_local std::vector<std::string> plan;
  plan.clear();
  runtime::active_plan = &plan;
}
const char* mpsx_close_plan(mpsx_list** out) {
  return make_list(out, [](auto& rows) {
    if (auto* const plan = std::exchange(runtime::active_plan, nullptr))
      for (std::string& launch : *plan) rows.emplace_back().name = std::move(launch);
  });
}
size_t mpsx_list_length(const mpsx_list* list) { return list->rows.size(); }
mpsx_row mpsx_list_row(const mpsx_list* list, size_t index) {
  const auto& r = list->rows[index];
  return {r.name.c_str(), r.library.c_str(), static_cast<int>(r.route), r.calls, r.nanoseconds, r.bytes};
}
void mpsx_list_free(mpsx_list* list) { delete list; }

const char* mpsx_tuning(const char* gpu_family, mpsx_tunable* out, size_t* count) {
  return guarded([&] {
    *count = runtime::tunables().size();
    if (!out) return;
    const auto table = runtime::table_for(gpu_family ? gpu_family : runtime::driver().traits().gpu_family);
    const runtime::Tuning& values = gpu_family ? table : runtime::tuning();
    for (const runtime::Tunable& t : runtime::tunables())
      *out++ = {t.name, values.*t.member, table.*t.member, t.low, t.high};
  });
}
const char* mpsx_set_tuning(const char* lines) {
  return guarded([&] { runtime::set_tuning(lines); });
}
void mpsx_set_tuning_reader(mpsx_read_tuning read) {
  runtime::set_tuning_reader([read]() -> std::string {
    const char* const lines = read();
    return lines ? lines : "";
  });
}

const char* mpsx_begin_label(const char* name) {
  return guarded([&] { runtime::driver().begin_label(name); });
}
const char* mpsx_end_label(void) {
  return guarded([] { runtime::driver().end_label(); });
}
const char* mpsx_set_kernel_profile(mpsx_find_profiled find) {
  return guarded([&] {
    if (!find) return driver::set_kernel_profile({});
    driver::set_kernel_profile([find](const std::string& library, const std::string& kernel) -> std::string {
      const char* found = nullptr;
      if (!find(library.c_str(), kernel.c_str(), &found)) throw driver::Error(found);
      return found;
    });
  });
}
const char* mpsx_take_profiled_launches(mpsx_list** out) {
  return make_list(out, [](auto& rows) {
    for (auto& launch : driver::take_profiled_launches()) {
      auto& row = rows.emplace_back();
      row.name = std::move(launch.kernel);
      row.library = std::move(launch.counts);
    }
  });
}

const char* mpsx_start_capture(const char* path) {
  return guarded([&] { runtime::driver().start_capture(path); });
}
const char* mpsx_stop_capture(void) {
  return guarded([] { runtime::driver().stop_capture(); });
}

void mpsx_set_profiling(int on) { runtime::set_profiling(on); }
int mpsx_profiling(void) { return runtime::profiling; }
void mpsx_reset_profile(void) { runtime::reset_profile(); }
void mpsx_open_launch_log(void) { runtime::open_launch_log(); }

const char* mpsx_shader_load(const char* name, const char* path, const char* text, mpsx_shader** out) {
  return guarded([&] {
    auto shader = runtime::load_shader({name, path ? path : "", text ? text : ""});
    *out = reinterpret_cast<mpsx_shader*>(new SharedShader(std::move(shader)));
  });
}
void mpsx_shader_free(mpsx_shader* shader) { delete &shared(shader); }
const char* mpsx_shader_kernels(mpsx_shader* shader, mpsx_list** out) {
  return make_list(out, [&](auto& rows) {
    for (auto& name : shared(shader)->names()) rows.emplace_back().name = std::move(name);
  });
}
const char* mpsx_shader_find(mpsx_shader* shader, const char* name, mpsx_shader_kernel** out,
                             mpsx_shader_kernel_info* info) {
  return guarded([&] {
    auto* entry = shared(shader)->find(name);
    *out = reinterpret_cast<mpsx_shader_kernel*>(entry);
    if (!entry) return;
    const auto& kernel = *entry->kernel;
    const auto bindings = runtime::bindings(*entry);
    *info = {kernel.max_threads, kernel.simd_width, kernel.static_threadgroup_bytes,
             bindings.known,     bindings.buffers,  bindings.threadgroups,
             bindings.tensors};
  });
}
const char* mpsx_shader_run(mpsx_shader_kernel* kernel, const mpsx_shader_call* c) {
  return guarded([&] {
    static_assert(sizeof(mpsx_shader_argument) == sizeof(runtime::ShaderArgument));
    static_assert(sizeof(mpsx_shader_tensor) == sizeof(driver::TensorArgument));
    const auto* arguments = reinterpret_cast<const runtime::ShaderArgument*>(c->arguments);
    const runtime::ShaderCall call{arguments,
                                   c->count,
                                   {c->threads[0], c->threads[1], c->threads[2]},
                                   {c->group[0], c->group[1], c->group[2]},
                                   c->error_buffer};
    runtime::run_shader(*reinterpret_cast<runtime::KernelEntry*>(kernel), call);
  });
}

}  // extern "C"
