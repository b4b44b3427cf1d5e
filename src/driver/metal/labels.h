// Labels for sections of work, which appear in profiling tools, captures and errors.
#pragma once

#include <memory>
#include <string>

namespace mpsx::driver::metal {

using Label = std::shared_ptr<const std::string>;

// Returns the open labels of the calling thread, outermost first, for example "forward/attention". Null if there are
// none.
const Label& current_label();
void begin_label(const std::string& name);
void end_label() noexcept;

}  // namespace mpsx::driver::metal
