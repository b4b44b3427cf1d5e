#include "runtime/tier.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <string>

#include "runtime/device.h"

namespace mpsx::runtime {
namespace {

enum class Tier { simdgroup, tensor, forced_tensor };

Tier choose_tier() {
  const char* const text = std::getenv("MPSX_TIER");
  const std::string wanted = text ? text : "";
  const driver::Driver& device = driver();
  const driver::TensorTier tier = device.traits().tensor_tier;
  TORCH_CHECK(wanted.empty() || wanted == "simdgroup" || wanted == "tensor",
              "MPSX_TIER: expected simdgroup or tensor, got \"", wanted, "\"");
  if (wanted.empty()) return tier == driver::TensorTier::preferred ? Tier::tensor : Tier::simdgroup;
  if (wanted == "simdgroup") return Tier::simdgroup;
  TORCH_CHECK(tier != driver::TensorTier::absent,
              "MPSX_TIER=tensor: expected a driver with Metal 4's tensors (simt, cuda, or metal on macOS 26.2), got ",
              device.info().name, " on ", device.info().device);
  return Tier::forced_tensor;
}
Tier tier() {
  static const Tier chosen = choose_tier();
  return chosen;
}

}  // namespace

bool uses_tensor_tier() { return tier() != Tier::simdgroup; }
bool forces_tensor_tier() { return tier() == Tier::forced_tensor; }
bool uses_tensor_fragments() {
  return uses_tensor_tier() && (forces_tensor_tier() || !prefers_large_tensor_tiles());
}
bool prefers_large_tensor_tiles() { return driver().traits().large_tensor_tiles; }
uint32_t min_tensor_outputs() { return driver().traits().min_tensor_outputs; }

}  // namespace mpsx::runtime
