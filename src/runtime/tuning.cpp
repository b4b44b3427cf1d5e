#include "runtime/tuning.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <memory>
#include <sstream>

#include "runtime/device.h"

namespace mpsx::runtime {
namespace {

constexpr Tunable kTunables[] = {
#define MPSX_TUNABLE(name, value, low, high) {#name, &Tuning::name, low, high},
#define MPSX_TUNED(family, name, value)
#include "runtime/tuning.def"
#undef MPSX_TUNABLE
#undef MPSX_TUNED
};

struct Row {
  std::string_view family;
  double Tuning::* member;
  double value;
};
constexpr Row kRows[] = {
#define MPSX_TUNABLE(name, value, low, high)
#define MPSX_TUNED(family, name, value) {#family, &Tuning::name, value},
#include "runtime/tuning.def"
#undef MPSX_TUNABLE
#undef MPSX_TUNED
};

std::function<std::string()>& reader() {
  static auto* const r = new std::function<std::string()>;
  return *r;
}

void set(Tuning& values, std::string_view name, double value) {
  for (const Tunable& t : kTunables) {
    if (name != t.name) continue;
    TORCH_CHECK(value >= t.low && value <= t.high, "tuning: expected ", name, " from ", t.low, " to ", t.high, ", got ",
                value);
    values.*t.member = value;
    return;
  }
  TORCH_CHECK(false, "tuning: no number is named ", name);
}

Tuning parse(const std::string& text) {
  Tuning values = table_for(driver().traits().gpu_family);
  std::istringstream lines(text);
  for (std::string name, value; lines >> name >> value;) set(values, name, std::strtod(value.c_str(), nullptr));
  return values;
}

}  // namespace

namespace detail {

std::atomic<const Tuning*> current_tuning{nullptr};

// Does not lock, because the reader runs Python, and a thread that waits for a lock may hold the GIL. If several
// threads get here at the same time, the first one's values win.
const Tuning& load_tuning() {
  auto values = std::make_unique<const Tuning>(parse(reader() ? reader()() : ""));
  const Tuning* current = nullptr;
  if (current_tuning.compare_exchange_strong(current, values.get(), std::memory_order_acq_rel))
    current = values.release();
  return *current;
}

}  // namespace detail

std::span<const Tunable> tunables() { return kTunables; }

Tuning table_for(std::string_view gpu_family) {
  Tuning values;
  for (const Row& row : kRows)
    if (row.family == gpu_family) values.*row.member = row.value;
  return values;
}

// The previous values are never freed, because other threads may still read them.
void set_tuning(const std::string& lines) {
  detail::current_tuning.store(new Tuning(parse(lines)), std::memory_order_release);
}

void set_tuning_reader(std::function<std::string()> read) { reader() = std::move(read); }

}  // namespace mpsx::runtime
