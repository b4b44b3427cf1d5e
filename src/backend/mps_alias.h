// Makes "mps" an alias of the device: programs that request "mps" use mpsx, and mpsx tensors report "mps".
#pragma once

namespace mpsx::backend {

// Applies to the whole process. Throws if the platform does not support it.
void set_mps_alias(bool on);
bool has_mps_alias();

}  // namespace mpsx::backend
