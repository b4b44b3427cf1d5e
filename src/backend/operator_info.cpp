#include "backend/operator_info.h"

#include <ATen/core/function_schema.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_set>

namespace mpsx::backend {
namespace {

// Returns whether an operator with `device_check: NoCheck` accepts CPU tensors of any size, for example CPU indices,
// lengths, nested sizes, or scalars passed as CPU tensors.
bool mixes_devices(const c10::OperatorName& op) {
  static const std::unordered_set<std::string_view> names = {"aten::index",
                                                             "aten::index_put",
                                                             "aten::index_put_",
                                                             "aten::_index_put_impl_",
                                                             "aten::_unsafe_index",
                                                             "aten::_unsafe_index_put",
                                                             "aten::_unsafe_masked_index",
                                                             "aten::_unsafe_masked_index_put_accumulate",
                                                             "aten::copy_",
                                                             "aten::copy_sparse_to_sparse_",
                                                             "aten::_copy_from",
                                                             "aten::_copy_from_and_resize",
                                                             "aten::_pack_padded_sequence",
                                                             "aten::_pack_padded_sequence_backward",
                                                             "aten::_nested_from_padded",
                                                             "aten::_nested_view_from_buffer",
                                                             "aten::_nested_view_from_buffer_copy",
                                                             "aten::_nested_compute_contiguous_strides_offsets",
                                                             "aten::_nested_tensor_from_mask",
                                                             "aten::_nested_from_padded_and_nested_example",
                                                             "aten::is_set_to"};
  if (names.contains(op.name)) return true;
  const std::string_view name = op.name;
  return op.overload_name == "Tensor" &&
         (name.starts_with("aten::_foreach_addcdiv") || name.starts_with("aten::_foreach_addcmul"));
}

bool is_optional_generator(const c10::Argument& argument) {
  const auto& type = argument.type();
  return type->kind() == c10::TypeKind::OptionalType &&
         type->castRaw<c10::OptionalType>()->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

struct Registry {
  std::mutex mutex;
  std::map<std::pair<std::string, const void*>, std::unique_ptr<OperatorInfo>> facts;
};

Registry& registry() {
  static auto* r = new Registry();
  return *r;
}

OperatorInfo& look_up(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  const auto& operator_name = op.operator_name();
  auto name = c10::toString(operator_name);
  auto& r = registry();
  std::lock_guard lock(r.mutex);
  auto& slot = r.facts[{name, schema.arguments().data()}];
  if (slot) return *slot;
  slot = std::make_unique<OperatorInfo>();
  for (const auto& argument : schema.arguments()) {
    const auto* alias = argument.alias_info();
    const bool written = alias && alias->isWrite();
    slot->arguments.push_back({written, is_optional_generator(argument)});
    slot->writes |= written;
  }
  slot->accepts_mixed_devices = mixes_devices(operator_name);
  slot->fallback = &runtime::route_entry(name, runtime::Route::fallback);
  slot->name = std::move(name);
  return *slot;
}

}  // namespace

OperatorInfo& operator_info(const c10::OperatorHandle& op) {
  // The address of the arguments must also match, because a new schema may be allocated at the address of a schema from
  // an unloaded library.
  struct Cached {
    const void* schema = nullptr;
    const void* arguments = nullptr;
    OperatorInfo* facts = nullptr;
  };
  static thread_local std::array<Cached, 256> cache;
  const auto& schema = op.schema();
  const void* arguments = schema.arguments().data();
  auto& slot = cache[(reinterpret_cast<uintptr_t>(&schema) >> 6) % cache.size()];
  if (C10_LIKELY(slot.schema == &schema && slot.arguments == arguments)) return *slot.facts;
  auto& found = look_up(op);
  slot = {&schema, arguments, &found};
  return found;
}

std::vector<FallbackCounts> fallback_counts() {
  std::vector<FallbackCounts> rows;
  auto& r = registry();
  std::lock_guard lock(r.mutex);
  for (auto& [key, facts] : r.facts) {
    const uint64_t calls = facts->fallback->calls;
    if (calls) rows.push_back({facts->name, calls, facts->fallback->nanoseconds, facts->bytes});
  }
  return rows;
}

void reset_fallback_counts() {
  auto& r = registry();
  std::lock_guard lock(r.mutex);
  for (auto& [key, facts] : r.facts) {
    facts->fallback->calls = 0;
    facts->fallback->nanoseconds = 0;
    facts->bytes = 0;
    facts->warned = false;
  }
}

}  // namespace mpsx::backend
