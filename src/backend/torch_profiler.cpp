// Records the device's track in torch.profiler. Links each kernel, and each CPU library call in place of a kernel, to
// its operator.
#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)  // since torch 2.13
#  define USE_KINETO
#  define KINETO_NAMESPACE libkineto
#  define FMT_HEADER_ONLY
#  include <libkineto.h>
#  include <output_base.h>
#  include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#  include "runtime/device.h"
#  include "runtime/trace.h"

namespace mpsx::backend {
namespace {

using libkineto::ActivityType;

class Session final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    runtime::start_trace();
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    events_ = runtime::stop_trace();
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, INT64_MAX);
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t from,
                    int64_t to) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(from, to, "mpsx");
    int32_t id = 0;
    for (const runtime::TraceEvent& event : events_) {
      if (event.begin < from || event.end > to) continue;
      buffer_->emplace_activity(buffer_->span, ActivityType::CONCURRENT_KERNEL, event.name);
      libkineto::GenericTraceActivity& activity = *buffer_->activities.back();
      activity.startTime = event.begin;
      activity.endTime = event.end;
      activity.id = ++id;
      activity.resource = int32_t(event.stream);
      activity.linked = event.correlation ? linked(int32_t(event.correlation)) : nullptr;
      activity.addMetadata("stream", event.stream);
      logger.handleGenericActivity(activity);
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::unique_ptr<libkineto::DeviceInfo>(
        new libkineto::DeviceInfo{0, libkineto::kExceedMaxPid, "mpsx", "mpsx:0, " + runtime::driver().info().device});
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {{0, 0, 0, "stream 0"}}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override { runtime::push_correlation(id); }
  void popCorrelationId() override { runtime::pop_correlation(); }

 private:
  std::vector<runtime::TraceEvent> events_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return activities_; }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config&) override {
    if (!wanted.contains(ActivityType::CONCURRENT_KERNEL)) return nullptr;
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config& config) override {
    return configure(wanted, config);
  }

 private:
  std::string name_ = "mpsx";
  std::set<ActivityType> activities_{ActivityType::CONCURRENT_KERNEL, ActivityType::PRIVATEUSE1_RUNTIME,
                                     ActivityType::PRIVATEUSE1_DRIVER};
};

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

}  // namespace
}  // namespace mpsx::backend
#endif
