// Detects forked children of a process that has used the device. A child process cannot use the device, because fork()
// does not copy the driver's threads.
#pragma once

namespace mpsx::runtime {

bool is_bad_fork();  // check_not_forked() in device.h throws if this is true

}  // namespace mpsx::runtime
