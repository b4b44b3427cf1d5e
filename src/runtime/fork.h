// Forked children of a process that had used the device cannot: threads of the driver are missing there.
#pragma once

namespace mpsx::runtime {

bool is_bad_fork();  // device.h has restart_check(), which throws then

}  // namespace mpsx::runtime
