// Detects a child forked from a process that had used the device. Such a child cannot use the device, because fork()
// does not copy the driver's threads.
#pragma once

namespace mpsx::runtime {

bool is_bad_fork();  // if true, check_not_forked() in device.h throws

}  // namespace mpsx::runtime
