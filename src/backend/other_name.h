// The device under the name of PyTorch's own: programs that say "mps" get mpsx, and are told "mps".
#pragma once

namespace mpsx::backend {

// For the whole process, while it is on. Throws where it cannot be done.
void set_mps_name(bool on);
bool has_mps_name();

}  // namespace mpsx::backend
