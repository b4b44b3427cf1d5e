// Runs the threadgroups of a dispatch one after another. For each of them, sets up its shape, shuffles its lanes and
// starts them.
#include "driver/host/simt/engine.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <numeric>
#include <optional>

#include "driver/host/interrupt.h"

namespace mpsx::driver::host::simt {
namespace {

constexpr unsigned kWidth = MPSX_SIMD_WIDTH;

// Avoid the initial-exec TLS model. Libraries that are loaded at run time share a small TLS reserve, and PyTorch
// exhausts it.
thread_local Worker* running = nullptr;

// The generator SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  template <typename T>
  void shuffle(T* items, unsigned count) {
    for (unsigned i = count; i > 1; --i) std::swap(items[i - 1], items[uint32_t(next()) * uint64_t(i) >> 32]);
  }

 private:
  uint64_t state_;
};

std::string position_text(const unsigned* p) {
  char text[40];
  std::snprintf(text, sizeof text, "(%u, %u, %u)", p[0], p[1], p[2]);
  return text;
}

}  // namespace

Worker* Worker::active() noexcept { return running; }

void run_groups(Job& job, uint64_t begin, uint64_t end) {
  thread_local Worker worker;
  worker.prepare(job);
  running = &worker;
  const RunningKernel kernel(job.record->name, nullptr, &worker);
  std::optional<Interruptible> interruptible;
  if (job.interruptible) interruptible.emplace(job.interrupts);
  for (uint64_t i = begin; i < end && !job.failed.load(std::memory_order_relaxed); ++i) worker.run_group(i);
  running = nullptr;
  worker.job_ = nullptr;
  worker.monitor_.reset();
}

void Worker::prepare(Job& job) {
  job_ = &job;
  shape_ = {};
  fault_site_ = nullptr;
  arena_.reset();
  if (job.make_monitor) monitor_ = job.make_monitor();
  std::copy(std::begin(job.args), std::end(job.args), args_);
  unsigned index = 0;
  for (size_t i = 0; i < job.argument_count; ++i) {
    const Argument& a = job.arguments[i];
    if (a.kind != Argument::Kind::threadgroup) continue;
    args_[MPSX_MAX_BUFFERS + index] = arena_.variable(index, a.size, "a [[threadgroup(n)]] argument");
    if (!args_[MPSX_MAX_BUFFERS + index++]) throw Error("the dispatch needs too much threadgroup memory");
  }
  const mpsx_launch& l = job.launch;
  const unsigned threads = l.group[0] * l.group[1] * l.group[2];
  lanes_.reserve(threads);
  fibers_ = job.record->fibers != 0;
  stacks_.reserve((job.record->fibers ? threads : 1) + 1, this);
}

// Sets up the threads of a threadgroup whose size is group_.size.
void Worker::set_shape() {
  const unsigned* size = group_.size;
  shape_ = {size[0], size[1], size[2]};
  count_ = group_.threads = size[0] * size[1] * size[2];
  group_.simdgroups = (count_ + kWidth - 1) / kWidth;
  lanes_.resize(count_);
  long_slots_.resize(count_);
  threads_.resize(count_);
  unsigned i = 0;
  for (unsigned z = 0; z < size[2]; ++z)
    for (unsigned y = 0; y < size[1]; ++y)
      for (unsigned x = 0; x < size[0]; ++x, ++i) threads_[i] = {{x, y, z}, i, i % kWidth, i / kWidth, &group_};
  for (i = 0; i < count_; ++i) lanes_[i].index = i, lanes_[i].parity = 0;
  simdgroups_.resize(group_.simdgroups);
  for (unsigned s = 0; s < group_.simdgroups; ++s) {
    simdgroups_[s].first = s * kWidth;
    simdgroups_[s].count = std::min(kWidth, count_ - s * kWidth);
  }
  turns_.resize(group_.simdgroups);
}

// Shuffles the SIMD groups of this threadgroup, and their lanes. The order depends only on the seed and the
// threadgroup.
void Worker::shuffle(uint64_t group) {
  Random random(job_->seed + group * 0xd1342543de82ef95u);
  std::iota(turns_.begin(), turns_.end(), 0u);
  if (job_->seed) random.shuffle(turns_.data(), group_.simdgroups);
  for (SimdGroup& g : simdgroups_) {
    std::iota(g.order.begin(), g.order.end(), uint8_t(0));
    if (job_->seed) random.shuffle(g.order.data(), g.count);
    for (unsigned p = 0; p < kWidth; ++p) g.position[g.order[p]] = uint8_t(p);
  }
}

void Worker::run_group(uint64_t index) {
  const mpsx_launch& l = job_->launch;
  const unsigned position[3] = {unsigned(index % l.groups[0]), unsigned(index / l.groups[0] % l.groups[1]),
                                unsigned(index / l.groups[0] / l.groups[1])};
  for (int d = 0; d < 3; ++d) {
    group_.position[d] = position[d];
    group_.origin[d] = position[d] * l.group[d];
    group_.size[d] = std::min(l.group[d], l.threads[d] - group_.origin[d]);
  }
  const bool reshaped = !std::equal(shape_.begin(), shape_.end(), group_.size);
  if (reshaped) set_shape();
  if (reshaped || job_->seed) shuffle(index);
  lane_ = lanes_.data();
  if (monitor_) monitor_->begin_group(*this);
  in_kernel_ = true;
  if (job_->record->fibers)
    run_as_fibers();
  else
    run_as_loop();
  in_kernel_ = false;
}

void Worker::run_as_loop() {
  // In this mode, threads never wait for each other, so they all run on one stack. It is separate from the CPU thread's
  // stack, so that a fault can abandon it.
  mpsx_simt_start(&main_, stacks_.top(0), &Worker::loop_main);
}

void Worker::loop_main() {
  Worker& w = *running;
  const Job& job = *w.job_;
  for (const unsigned turn : w.turns_) {
    const SimdGroup& g = w.simdgroups_[turn];
    for (unsigned p = 0; p < g.count; ++p) {
      w.lane_ = &w.lanes_[g.first + g.order[p]];
      job.record->thread_entry(w.args_, &job.launch, &w.thread());
    }
  }
  if (w.monitor_) w.monitor_->end_group(w);
  w.leave();
}

// Makes the running thread continue in fault_main, on the spare stack.
bool Worker::divert(const Fault& found, ResumePoint& resume_point) noexcept {
  if (!in_kernel_) return false;
  fault_ = found;
  resume_point = {&Worker::fault_main, stacks_.spare()};
  return true;
}

bool Worker::interrupt(ResumePoint& resume_point) noexcept { return running && running->divert({}, resume_point); }

void Worker::fault_main() {
  Worker& w = *running;
  if (!w.fault_.signal) w.fault("interrupted", nullptr, 0);
  if (w.stacks_.overflowed(w.fault_.address) >= 0)
    w.fault("stack overflow: the thread's stack has " + std::to_string(Stacks::kBytes >> 10) + " KiB", nullptr, 0);
  if (w.monitor_ && (w.fault_.signal == SIGSEGV || w.fault_.signal == SIGBUS))
    w.monitor_->memory_signal(w, w.fault_.address);
  w.fault(describe(w.fault_), nullptr, 0);
}

void Worker::report(std::string&& what, const char* file, int line, const mpsx_thread& thread) {
  std::string text(job_->record->name);
  text.append(": ").append(what);
  if (file && *file) text.append(", at ").append(file);
  if (file && *file && line > 0) text.append(":").append(std::to_string(line));
  text.append(", threadgroup ").append(position_text(group_.position));
  text.append(", thread ").append(position_text(thread.local));
  text.append(", seed ").append(std::to_string(job_->seed));
  std::lock_guard<std::mutex> lock(job_->mutex);
  if (!job_->failed.exchange(true)) job_->message = std::move(text);
}

void Worker::abandon(std::string&& what, const char* file, int line, const mpsx_thread& thread) {
  report(std::move(what), file, line, thread);
  what = std::string();  // free the string, because leave() does not unwind this stack
  leave();
}

void Worker::fault(std::string what, const char* file, int line) {
  abandon(std::move(what), file, line, this->thread());
}

void Worker::fault_of(unsigned thread, std::string&& what, const char* file, int line) {
  abandon(std::move(what), file, line, threads_[thread]);
}

bool Worker::is_shared(const void* p) const {
  const auto within = [at = static_cast<const char*>(p)](const auto& v) {
    const char* begin = reinterpret_cast<const char*>(v.data());
    return at >= begin && at < begin + v.size() * sizeof v[0];
  };
  return within(lanes_) || within(long_slots_) || within(threads_) || within(simdgroups_);
}

void Worker::leave() {
  void* unused;
  mpsx_simt_switch(&unused, main_);
  __builtin_unreachable();
}

}  // namespace mpsx::driver::host::simt
