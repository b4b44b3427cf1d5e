#include "driver/metal/labels.h"

#include <os/log.h>
#include <os/signpost.h>

#include <vector>

namespace mpsx::driver::metal {
namespace {

struct Region {
  Label path;
  os_signpost_id_t id;
};
thread_local std::vector<Region> regions;
const constinit Label none;

os_log_t log() {
  static const os_log_t made = os_log_create("mpsx", "labels");
  return made;
}

}  // namespace

const Label& current_label() {
  return regions.empty() ? none : regions.back().path;
}

void begin_label(const std::string& name) {
  const Label outer = current_label();
  auto path = std::make_shared<const std::string>(outer ? *outer + "/" + name : name);
  const os_signpost_id_t id = os_signpost_id_generate(log());
  regions.push_back({std::move(path), id});
  os_signpost_interval_begin(log(), id, "label", "%{public}s", name.c_str());
}

void end_label() noexcept {
  if (regions.empty()) return;
  os_signpost_interval_end(log(), regions.back().id, "label");
  regions.pop_back();
}

}  // namespace mpsx::driver::metal
