// A forked child of a process that has used the device cannot use it: the driver's threads do not exist there.
#pragma once

namespace mpsx::runtime {

bool is_bad_fork();  // check_not_forked() in device.h throws in this case

}  // namespace mpsx::runtime
