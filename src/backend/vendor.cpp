#include "backend/vendor.h"

#include <array>
#include <chrono>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "backend/fallback.h"
#include "backend/operator_facts.h"
#include "backend/register.h"
#include "backend/setting.h"
#include "runtime/device.h"

namespace mpsx::backend {
namespace {

struct Vendor {
  std::string_view op;
  std::string_view library;
};

constexpr std::string_view kGemm = "oneDNN/MKL through ATen";
constexpr std::string_view kAten = "ATen";
constexpr std::string_view kFft = "MKL/PocketFFT through ATen";

// Every overload of these that has a CPU kernel. Structured operators need only their out= form: torch derives the
// functional and the in-place one from it, which also allocates the result on the device.
constexpr std::array kVendors = {
    Vendor{"aten::mm", kGemm},
    Vendor{"aten::addmm", kGemm},
    Vendor{"aten::_addmm_activation", kGemm},
    Vendor{"aten::bmm", kGemm},
    Vendor{"aten::baddbmm", kGemm},
    Vendor{"aten::baddbmm_", kGemm},
    Vendor{"aten::addbmm", kGemm},
    Vendor{"aten::addbmm_", kGemm},
    Vendor{"aten::mv", kGemm},
    Vendor{"aten::addmv", kGemm},
    Vendor{"aten::addmv_", kGemm},
    Vendor{"aten::addr", kAten},
    Vendor{"aten::addr_", kAten},
    Vendor{"aten::dot", kGemm},
    Vendor{"aten::vdot", kGemm},
    Vendor{"aten::_int_mm", kGemm},
    Vendor{"aten::_weight_int4pack_mm_for_cpu", kAten},
    Vendor{"aten::_convert_weight_to_int4pack_for_cpu", kAten},
    Vendor{"aten::_dyn_quant_pack_4bit_weight", kAten},
    Vendor{"aten::_dyn_quant_matmul_4bit", kAten},
    Vendor{"aten::_grouped_mm", kGemm},
    Vendor{"aten::_scaled_mm", kGemm},
    Vendor{"aten::_fft_r2c", kFft},
    Vendor{"aten::_fft_c2r", kFft},
    Vendor{"aten::_fft_c2c", kFft},
};

struct Libraries {
  std::mutex mutex;
  std::unordered_map<std::string, std::string> of;
};

Libraries& libraries() {
  static auto* l = new Libraries();
  return *l;
}

void remember(const std::string& op, std::string_view library) {
  auto& l = libraries();
  std::lock_guard lock(l.mutex);
  l.of[op] = library;
}

runtime::RouteEntry& route_of(OperatorFacts& facts) {
  auto* route = facts.vendor.load(std::memory_order_acquire);
  if (C10_UNLIKELY(!route)) {
    route = &runtime::route_entry(facts.name, runtime::Route::vendor, vendor_library(facts.name));
    facts.library.store(matmul_kernel(facts.name), std::memory_order_relaxed);
    facts.vendor.store(route, std::memory_order_release);
  }
  return *route;
}

// Our kernels by operator ("aten::mm.out"), from static initialisers.
struct Alternative {
  c10::KernelFunction kernel;
  IsSmall* small;
};
std::unordered_map<std::string, Alternative>& alternatives() {
  static auto* a = new std::unordered_map<std::string, Alternative>();
  return *a;
}

void kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  OperatorFacts& facts = facts_of(op);
  if (facts.kernel && (!prefers_vendor() || (facts.is_small && facts.is_small(*stack))))
    return facts.kernel->callBoxed(op, keys, stack);
  run_on_cpu(op, c10::DispatchKey::CPU, stack, route_of(facts), runtime::profiling.load(std::memory_order_relaxed));
}

bool read_preference() { return setting("MPSX_VENDOR", "on", "off").value_or(runtime::driver().info().name == "host"); }

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

}  // namespace

bool prefers_vendor() {
  static const bool prefers = read_preference();
  return prefers;
}

void VendorAlternatives::add(const char* op, c10::KernelFunction kernel, IsSmall* small) {
  alternatives().emplace(std::string("aten::") + op, Alternative{std::move(kernel), small});
}

void register_vendor(torch::Library& library_block, const std::string& op, const std::string& library) {
  remember("aten::" + op, library);
  library_block.impl(op.c_str(), torch::CppFunction::makeFromBoxedFunction<&kernel>());
}

std::string vendor_library(const std::string& op) {
  auto& l = libraries();
  std::lock_guard lock(l.mutex);
  auto it = l.of.find(op);
  return it == l.of.end() ? std::string() : it->second;
}

VendorCall::VendorCall(runtime::RouteEntry& route) : route_(route), start_(runtime::profiling ? now() : 0) {}

VendorCall::~VendorCall() {
  route_.calls.fetch_add(1, std::memory_order_relaxed);
  if (start_) route_.nanoseconds.fetch_add(now() - start_, std::memory_order_relaxed);
  if (C10_UNLIKELY(runtime::logging.load(std::memory_order_relaxed))) runtime::log_launch(route_.route, route_.name);
}

void register_vendor_ops() {
  using c10::DispatchKey;
  static auto* handles = new std::vector<c10::RegistrationHandleRAII>();
  auto& dispatcher = c10::Dispatcher::singleton();
  std::unordered_map<std::string_view, std::string_view> table;
  for (const auto& vendor : kVendors) table.emplace(vendor.op, vendor.library);
  for (const auto& name : dispatcher.getRegistrationsForDispatchKey(DispatchKey::CPU)) {
    const auto found = table.find(name.name);
    if (found == table.end()) continue;
    const auto op = dispatcher.findOp(name);
    if (!op || op->hasKernelForDispatchKey(DispatchKey::PrivateUse1) ||
        op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional))
      continue;
    remember(c10::toString(name), found->second);
    if (const auto own = alternatives().find(c10::toString(name)); own != alternatives().end()) {
      facts_of(*op).kernel = &own->second.kernel;
      facts_of(*op).is_small = own->second.small;
    }
    handles->push_back(dispatcher.registerImpl(name, DispatchKey::PrivateUse1,
                                               c10::KernelFunction::makeFromBoxedFunction<&kernel>(), std::nullopt,
                                               nullptr, "mpsx vendor"));
  }
}

}  // namespace mpsx::backend
