// Labels for regions of work, shown in profiling tools, captures and errors.
#pragma once

#include <memory>
#include <string>

namespace mpsx::driver::metal {

using Label = std::shared_ptr<const std::string>;

// Returns the calling thread's open labels, outermost first, such as "forward/attention". Null if no label is open.
Label current_label();
void begin_label(const std::string& name);
void end_label() noexcept;

}  // namespace mpsx::driver::metal
