#include "backend/gloo_calls.h"

#include <algorithm>
#include <iterator>
#include <mutex>

namespace mpsx::backend {
namespace {

using Calls = std::vector<std::shared_ptr<GlooCall>>;

std::mutex mutex;
Calls& unfinished() {
  static auto* calls = new Calls;  // never deleted, because gloo's threads may outlive static objects
  return *calls;
}

bool in_use(const std::shared_ptr<GlooCall>& call) { return call.use_count() > 1 || call->work.use_count() > 1; }

}  // namespace

std::shared_ptr<GlooCall> keep_alive(GlooCall call) {
  free_finished_calls();
  auto kept = std::make_shared<GlooCall>(std::move(call));
  std::lock_guard lock(mutex);
  unfinished().push_back(kept);
  return kept;
}

void free_finished_calls() {
  Calls finished;  // freed without the lock, because freeing a tensor can run Python code, which can call collectives
  std::lock_guard lock(mutex);
  Calls& calls = unfinished();
  const auto first = std::stable_partition(calls.begin(), calls.end(), in_use);
  finished.assign(std::make_move_iterator(first), std::make_move_iterator(calls.end()));
  calls.erase(first, calls.end());
}

}  // namespace mpsx::backend
