#include "runtime/tier.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <string>

#include "runtime/device.h"
#include "runtime/tuning.h"

namespace mpsx::runtime {
namespace {

enum class Forced { none, simdgroup, tensor };

Forced read_environment() {
  const char* const text = std::getenv("MPSX_TIER");
  const std::string wanted = text ? text : "";
  const driver::Driver& device = driver();
  TORCH_CHECK(wanted.empty() || wanted == "simdgroup" || wanted == "tensor",
              "MPSX_TIER: expected simdgroup or tensor, got \"", wanted, "\"");
  if (wanted.empty()) return Forced::none;
  if (wanted == "simdgroup") return Forced::simdgroup;
  TORCH_CHECK(device.traits().tensor_tier,
              "MPSX_TIER=tensor: expected a driver with Metal 4's tensors (simt, cuda, or metal on macOS 26.2), got ",
              device.info().name, " on ", device.info().device);
  return Forced::tensor;
}
Forced forced_tier() {
  static const Forced forced = read_environment();
  return forced;
}

}  // namespace

bool uses_tensor_tier() {
  const Forced forced = forced_tier();
  if (forced != Forced::none) return forced == Forced::tensor;
  return driver().traits().tensor_tier && tuning().tensor_tier > 0;
}
bool forces_tensor_tier() { return forced_tier() == Forced::tensor; }
bool uses_tensor_fragments() { return uses_tensor_tier() && (forces_tensor_tier() || !prefers_large_tensor_tiles()); }
bool prefers_large_tensor_tiles() { return driver().traits().large_tensor_tiles; }

}  // namespace mpsx::runtime
