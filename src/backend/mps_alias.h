// Makes "mps" an alias of the device. Programs that request "mps" then use mpsx, and mpsx tensors report "mps".
#pragma once

namespace mpsx::backend {

// Sets the alias for the whole process. Throws if the platform does not support it.
void set_mps_alias(bool on);
bool has_mps_alias();

}  // namespace mpsx::backend
