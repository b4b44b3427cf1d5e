#include "runtime/shader_errors.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/launch_recording.h"
#include "runtime/stream.h"

namespace mpsx::runtime {
namespace {

// Copy of c10::metal::ErrorMessages, whose header compiles only as Metal.
constexpr size_t kMaxMessages = 30;
struct ErrorMessage {
  char file[128];
  char function[128];
  char message[250];
  unsigned line;
};
struct ErrorMessages {
  unsigned count;
  ErrorMessage messages[kMaxMessages];
};
static_assert(sizeof(ErrorMessage) == 512 && sizeof(ErrorMessages) == 4 + 512 * kMaxMessages);

ErrorMessages* new_error_messages() {
  const PoolPause outlives_recordings;
  Block* block = allocate_host_resident(sizeof(ErrorMessages));
  prepare_cpu_access(block->data);  // the block's previous owner may have launched a kernel that still uses it
  return new (block->data) ErrorMessages{};
}

std::string text(const char* field, size_t size) { return std::string(field, strnlen(field, size)); }

// Clears the buffer and throws the first message.
void check_messages(const std::string& kernel, ErrorMessages& found) {
  const unsigned count = found.count;
  if (count == 0) return;
  const ErrorMessage m = found.messages[0];
  found.count = 0;
  std::string what = kernel + ": " + text(m.message, sizeof m.message) + " (" + text(m.file, sizeof m.file) + ":" +
                     std::to_string(m.line) + ", in " + text(m.function, sizeof m.function) + ")";
  if (count > 1) what += "; " + std::to_string(count - 1) + " more";
  throw ShaderError({__func__, __FILE__, uint32_t(__LINE__)}, 0, what);
}

// The buffer of one kernel on an asynchronous driver.
struct Slot {
  ErrorMessages* messages;
  std::string kernel;
  bool launched = false;  // whether the kernel was launched since the last check
};
struct SlotRegistry {
  std::mutex mutex;
  std::unordered_map<const KernelEntry*, Slot> slots;
  std::vector<Slot*> launched;  // pointers stay valid, because elements of an unordered_map never move
  std::vector<ErrorMessages*> unused;
};
SlotRegistry& slot_registry() {
  static auto* registry = new SlotRegistry;
  return *registry;
}

}  // namespace

void* shader_error_buffer(const KernelEntry& kernel) {
  if (!driver().traits().asynchronous) {
    // Each thread has its own buffer, so errors are raised by the call that launched the kernel.
    static thread_local ErrorMessages* messages = nullptr;
    if (!messages) messages = new_error_messages();
    messages->count = 0;  // a failed launch may have left messages
    return messages;
  }
  SlotRegistry& r = slot_registry();
  std::unique_lock<std::mutex> lock(r.mutex);
  const auto found = r.slots.find(&kernel);
  if (found != r.slots.end()) return found->second.messages;
  if (r.unused.empty()) {
    lock.unlock();  // the allocation may wait for the device, which checks all buffers and needs the lock
    ErrorMessages* messages = new_error_messages();
    lock.lock();
    r.unused.push_back(messages);
  }
  const auto [slot, is_new] = r.slots.try_emplace(&kernel, Slot{r.unused.back(), kernel.name});
  if (is_new) r.unused.pop_back();
  return slot->second.messages;
}

void check_shader_errors(const KernelEntry& kernel, void* buffer) {
  if (LaunchRecording* const to = recording()) to->add_error_check(nullptr, buffer);
  if (!driver().traits().asynchronous) return check_messages(kernel.name, *static_cast<ErrorMessages*>(buffer));
  SlotRegistry& r = slot_registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  Slot& slot = r.slots.at(&kernel);
  if (!slot.launched) r.launched.push_back(&slot);
  slot.launched = true;
}

void check_shader_errors_during_pause() {
  SlotRegistry& r = slot_registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  Slot* found = nullptr;
  std::erase_if(r.launched, [&](Slot* slot) {
    if (!driver().is_complete(last_use_seq(slot->messages))) return false;
    slot->launched = false;
    if (slot->messages->count == 0) return true;
    // Several kernels may report the same bad index. Throw the first report and clear the others.
    if (found) slot->messages->count = 0;
    if (!found) found = slot;
    return true;
  });
  if (found) check_messages(found->kernel, *found->messages);
}

void release_shader_error_buffer(const KernelEntry& kernel) {
  SlotRegistry& r = slot_registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  const auto it = r.slots.find(&kernel);
  if (it == r.slots.end()) return;
  std::erase(r.launched, &it->second);
  it->second.messages->count = 0;
  r.unused.push_back(it->second.messages);
  r.slots.erase(it);
}

}  // namespace mpsx::runtime
