#include "hazards.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "control.h"
#include "tensors.h"

namespace mpsx::driver::metal {
class CommandStream;
struct MetalKernel;
}  // namespace mpsx::driver::metal

namespace emulation {
namespace {

using mpsx::driver::Argument;
using mpsx::driver::Dispatch;

// The dispatch that this thread encodes.
struct Declared {
  const Argument* arguments = nullptr;
  size_t count = 0;
  const Dispatch* dispatch = nullptr;
};
thread_local Declared declared;

struct Range {
  uintptr_t begin, end;
  bool written;
};

std::vector<Range> ranges(const Launch& launch, bool untracked_only) {
  std::vector<Range> all;
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    const auto& b = launch.buffers[i];
    if (!b.base || (untracked_only && !(launch.untracked >> i & 1))) continue;
    const auto base = reinterpret_cast<uintptr_t>(b.base);
    const bool written = b.access == mpsx::driver::Access::write;
    all.push_back({base + b.begin, base + std::min(b.end, b.size), written});
  }
  return all;
}

// Describes why two dispatches conflict, or returns an empty string.
std::string conflict(const Launch& first, const Launch& second, bool untracked_only) {
  const std::string names = std::string(first.record->name) + " and " + second.record->name;
  if (first.shape.uses_other_memory || second.shape.uses_other_memory) return names + ", which may use any memory";
  for (const Range& a : ranges(first, untracked_only))
    for (const Range& b : ranges(second, untracked_only))
      if ((a.written || b.written) && a.begin < b.end && b.begin < a.end)
        return names + ", which conflict in " + std::to_string(std::min(a.end, b.end) - std::max(a.begin, b.begin)) +
               " bytes";
  return "";
}

// The longest chains that end in the last writer and in the readers of each range.
struct Chains {
  struct Ends {
    uintptr_t end;
    unsigned long writer = 0, reader = 0;
  };
  std::mutex mutex;
  std::map<uintptr_t, Ends> ranges;  // by their beginning
  unsigned long longest = 0;
};
Chains& chains() {
  static Chains* c = new Chains;
  return *c;
}

// The last encoders of all queues.
struct Recent {
  struct Encoder {
    uint64_t number;
    const Order* queue;
    std::string label;
    std::vector<Launch> launches;  // without their data
  };
  std::mutex mutex;
  uint64_t last = 0;
  std::deque<Encoder> encoders;
  // The encoders that precede the signals of each event.
  std::map<id, std::map<uint64_t, std::set<uint64_t>>> signals;
};
Recent& recent() {
  static Recent* r = new Recent;
  return *r;
}

std::mutex residency_mutex;
std::set<id>& resident_sets() {
  static auto* sets = new std::set<id>;
  return *sets;
}

}  // namespace

void declare(Launch::Buffer& buffer, unsigned index) {
  for (size_t i = 0, k = 0; i < declared.count; ++i) {
    const Argument& a = declared.arguments[i];
    if (a.kind == Argument::Kind::threadgroup || k++ != index) continue;
    if (a.kind != Argument::Kind::buffer) return;
    buffer.access = a.data ? a.access : mpsx::driver::Access::read;
    buffer.begin = a.data ? a.begin : 0;
    buffer.end = a.data ? a.end : SIZE_MAX;
  }
}
bool uses_other_memory() { return declared.dispatch && declared.dispatch->uses_other_memory; }

void check_barriers(const std::vector<Launch>& earlier, const Launch& launch) {
  for (auto it = earlier.rbegin(); it != earlier.rend() && it->interval == launch.interval; ++it)
    if (const std::string found = conflict(*it, launch, false); !found.empty())
      invalid("no barrier between the kernels %s", found.c_str());
}

void count_chain(const Launch& launch) {
  Chains& c = chains();
  std::lock_guard<std::mutex> lock(c.mutex);
  const auto visit = [&](const Range& r, auto&& f) {
    auto it = c.ranges.upper_bound(r.begin);
    if (it != c.ranges.begin() && std::prev(it)->second.end > r.begin) --it;
    for (; it != c.ranges.end() && it->first < r.end; ++it) f(it->second);
  };
  unsigned long depth = 0;
  const auto all = ranges(launch, false);
  for (const Range& r : all)
    visit(r, [&](const Chains::Ends& e) {
      depth = std::max({depth, e.writer, r.written ? e.reader : 0});
    });
  ++depth;
  for (const Range& r : all) {
    bool known = false;
    visit(r, [&](Chains::Ends& e) {
      (r.written ? e.writer : e.reader) = std::max(r.written ? e.writer : e.reader, depth);
      known = true;
    });
    if (!known) c.ranges[r.begin] = {r.end, r.written ? depth : 0, r.written ? 0 : depth};
  }
  c.longest = std::max(c.longest, depth);
}

thread_local Order* Order::completing = nullptr;

Order::~Order() {
  Recent& r = recent();
  std::lock_guard<std::mutex> lock(r.mutex);
  std::erase_if(r.encoders, [&](const Recent::Encoder& e) { return e.queue == this; });
}

void Order::wait(id event, uint64_t value) {
  Recent& r = recent();
  std::lock_guard<std::mutex> lock(r.mutex);
  const auto& signals = r.signals[event];
  if (const auto found = signals.lower_bound(value); found != signals.end()) waited_.merge(Encoders(found->second));
}

void Order::run(const std::vector<Launch>& launches, const std::vector<id>& awaited, const std::vector<id>& updated,
                const std::string& label) {
  constexpr size_t kRecent = 8;
  if (launches.empty()) return;
  Recent& r = recent();
  std::lock_guard<std::mutex> lock(r.mutex);
  Encoders before = waited_;
  for (id fence : awaited) before.merge(Encoders(updated_[fence]));
  for (const Recent::Encoder& e : r.encoders) {
    const bool same_queue = e.queue == this;
    if (before.count(e.number) || (!same_queue && !metal_4_ && !e.queue->metal_4_)) continue;
    for (const Launch& first : e.launches)
      for (const Launch& second : launches)
        if (const std::string found = conflict(first, second, same_queue); !found.empty())
          invalid("no %s orders the command buffers '%s' and '%s' with the kernels %s", same_queue ? "fence" : "event",
                  e.label.c_str(), label.c_str(), found.c_str());
  }
  Recent::Encoder own{++r.last, this, label, {}};
  for (const Launch& l : launches) {
    Launch& copy = own.launches.emplace_back();
    copy.record = l.record;
    copy.image = l.image;
    copy.shape = l.shape;
    copy.untracked = l.untracked;
    for (const auto& b : l.buffers) {
      Launch::Buffer kept = b;
      kept.value.clear();
      copy.buffers.push_back(kept);
    }
  }
  r.encoders.push_back(std::move(own));
  if (r.encoders.size() > kRecent) r.encoders.pop_front();
  const auto forget_old = [&](Encoders& encoders) {
    encoders.erase(encoders.begin(), encoders.lower_bound(r.encoders.front().number));
  };
  before.insert(r.last);
  forget_old(before);
  forget_old(waited_);
  for (id fence : updated) updated_[fence] = before;
  done_.merge(before);
  forget_old(done_);
}

void Order::signal(id event, uint64_t value) {
  Recent& r = recent();
  std::lock_guard<std::mutex> lock(r.mutex);
  done_.merge(Encoders(waited_));
  auto& signals = r.signals[event];
  signals[value] = done_;
  if (signals.size() > 16) signals.erase(signals.begin());
}

void Order::forget(id event) {
  Recent& r = recent();
  std::lock_guard<std::mutex> lock(r.mutex);
  r.signals.erase(event);
}

void add_resident(id<MTLResidencySet> set) {
  EMULATION_REQUIRE(set, "addResidencySet: of nil");
  std::lock_guard<std::mutex> lock(residency_mutex);
  resident_sets().insert(set);
}
void remove_resident(id<MTLResidencySet> set) {
  std::lock_guard<std::mutex> lock(residency_mutex);
  EMULATION_REQUIRE(resident_sets().erase(set), "removeResidencySet: of a set that the queue does not have");
}

}  // namespace emulation

// The linker replaces calls of CommandStream::dispatch(const MetalKernel&, const Argument*, size_t, const Dispatch&) by
// this function (tools/build/emulated_metal.py), because the encoder's interface has no place for what is declared.
#define DISPATCH(PREFIX) \
  PREFIX##_ZN4mpsx6driver5metal13CommandStream8dispatchERKNS1_11MetalKernelEPKNS0_8ArgumentEmRKNS0_8DispatchE
extern "C" {
using Stream = mpsx::driver::metal::CommandStream;
using Kernel = mpsx::driver::metal::MetalKernel;
uint64_t DISPATCH(__real_)(Stream*, const Kernel&, const mpsx::driver::Argument*, size_t,
                           const mpsx::driver::Dispatch&);
uint64_t DISPATCH(__wrap_)(Stream* stream, const Kernel& kernel, const mpsx::driver::Argument* arguments, size_t count,
                           const mpsx::driver::Dispatch& dispatch) {
  struct Scope {
    ~Scope() { emulation::declared = {}; }
  } const scope;
  emulation::declared = {arguments, count, &dispatch};
  return DISPATCH(__real_)(stream, kernel, arguments, count, dispatch);
}

unsigned long mpsx_emulation_longest_chain(void) {
  emulation::Chains& c = emulation::chains();
  std::lock_guard<std::mutex> lock(c.mutex);
  c.ranges.clear();
  return std::exchange(c.longest, 0);
}
int mpsx_emulation_resident(void* buffer) {
  std::lock_guard<std::mutex> lock(emulation::residency_mutex);
  for (id set : emulation::resident_sets())
    if (((EmulatedResidencySet*)set)->committed->count((id)buffer)) return 1;
  return 0;
}
}
