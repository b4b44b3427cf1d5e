// Names for regions of work, shown in the system's tools, in captures and in errors.
#pragma once

#include <memory>
#include <string>

namespace mpsx::driver::metal {

using Label = std::shared_ptr<const std::string>;

// The names that the calling thread has begun and not ended, the outermost first: "forward/attention". Null: none.
Label current_label();
void begin_label(const std::string& name);
void end_label() noexcept;

}  // namespace mpsx::driver::metal
