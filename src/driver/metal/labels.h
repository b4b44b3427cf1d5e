// Labels for regions of work, shown in the system's tools, in captures and in errors.
#pragma once

#include <memory>
#include <string>

namespace mpsx::driver::metal {

using Label = std::shared_ptr<const std::string>;

// The calling thread's open labels, outermost first: "forward/attention". Null if there are none.
Label current_label();
void begin_label(const std::string& name);
void end_label() noexcept;

}  // namespace mpsx::driver::metal
