#include "runtime/launch_recording.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "runtime/device.h"
#include "runtime/dispatch.h"
#include "runtime/error_record.h"
#include "runtime/launch_pause.h"
#include "runtime/profile.h"
#include "runtime/random_argument.h"
#include "runtime/shader_errors.h"
#include "runtime/trace.h"

namespace mpsx::runtime {
namespace {

template <typename T>
void remove_duplicates(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

void note_random_argument(const void* value) {
  if (LaunchRecording* const to = recording()) to->add_random_argument(value);
}

void LaunchRecording::add(KernelEntry& entry, std::span<const driver::Argument> arguments,
                          const driver::Dispatch& dispatch) {
  Recorded launch{&entry, dispatch, arguments_.size(), arguments.size(), nullptr, nullptr, nullptr};
  for (driver::Argument a : arguments) {
    if (a.kind == driver::Argument::Kind::bytes) {
      auto& copy = values_.emplace_back(new char[a.size]);
      std::memcpy(copy.get(), a.data, a.size);
      if (a.data == random_argument_) launch.random = copy.get();
      a.data = copy.get();
    }
    arguments_.push_back(a);
  }
  random_argument_ = nullptr;
  launches_.push_back(launch);
}

void LaunchRecording::add_use(const void* address, const Location& location) {
  if (!location.last_use_seq) return;
  if (pool_.contains(address)) return own_uses_.push_back(location.last_use_seq);
  const auto known = [&](const External& e) { return e.address == address; };
  if (std::none_of(externals_.begin(), externals_.end(), known))
    externals_.push_back({address, location.handle, location.offset, nullptr});
}

void LaunchRecording::add_error_check(const char* op, void* record) {
  if (launches_.empty()) return;
  launches_.back().op = op;
  launches_.back().error_record = record;
}

const std::string& LaunchRecording::finish() {
  pool_.retain_used_blocks();
  remove_duplicates(own_uses_);
  if (!reason_.empty()) return reason_;
  for (const Recorded& l : launches_)
    dispatches_.push_back({l.entry->kernel, arguments_.data() + l.first, l.count, l.dispatch});
  if (auto* const graphs = dynamic_cast<driver::GraphDriver*>(&driver()); graphs && !dispatches_.empty())
    graph_ = graphs->new_graph(dispatches_.data(), dispatches_.size());
  return reason_;
}

bool LaunchRecording::locate_externals() {
  try {
    for (External& e : externals_) {
      const Location l = locate(e.address);
      if (l.handle != e.handle || l.offset != e.offset) return false;
      e.last_use_seq = l.last_use_seq;
    }
  } catch (const c10::Error&) {  // the memory has been released
    return false;
  }
  return true;
}

// Replaces the seeds and the offsets in the arguments.
void LaunchRecording::set_random(RandomState now) {
  for (size_t i = 0; i < launches_.size(); ++i) {
    void* const argument = launches_[i].random;
    if (!argument) continue;
    RandomState state;
    std::memcpy(&state, argument, sizeof state);
    state = {now.seed, state.offset - random_.offset + now.offset};
    std::memcpy(argument, &state, sizeof state);
    if (graph_) graph_->update(i);
  }
  random_ = now;
}

void LaunchRecording::check_errors(const Recorded& launch) const {
  if (!launch.error_record) return;
  if (launch.op)
    check_device_error(launch.op, *static_cast<ErrorRecord*>(launch.error_record));
  else
    check_shader_errors(*launch.entry, launch.error_record);
}

bool LaunchRecording::replay(RandomState random) {
  const bool asynchronous = driver().traits().asynchronous;
  std::unique_lock<std::mutex> unpaused;
  if (asynchronous) unpaused = std::unique_lock(launch_mutex());
  if (!locate_externals()) return false;
  set_random(random);
  // Only separate launches can be timed and traced.
  const bool separate = !graph_ || profiling.load(std::memory_order_relaxed) || tracing.load(std::memory_order_relaxed);
  uint64_t seq = 0;
  if (separate) {
    for (const Recorded& l : launches_) {
      seq = std::max(seq, dispatch(*l.entry, arguments_.data() + l.first, l.count, l.dispatch));
      if (!asynchronous) check_errors(l);
    }
  } else {
    try {
      seq = graph_->launch();
    } catch (const driver::Error& e) {
      TORCH_CHECK(false, "mpsx: launch of a recorded graph failed: ", e.what());
    }
    for (const Recorded& l : launches_) {
      l.entry->launches.fetch_add(1, std::memory_order_relaxed);
      if (logging.load(std::memory_order_relaxed)) log_launch(Route::native, l.entry->name);
    }
  }
  for (std::atomic<uint64_t>* last_use_seq : own_uses_) record_use(*last_use_seq, seq);
  for (const External& e : externals_)
    if (e.last_use_seq) record_use(*e.last_use_seq, seq);
  if (!asynchronous) return true;
  unpaused.unlock();
  for (const Recorded& l : launches_) check_errors(l);
  return true;
}

}  // namespace mpsx::runtime
