#include "driver/cuda/dependent_launch.h"

namespace mpsx::driver::cuda {

std::string with_dependent_launch(std::string ptx) {
  if (ptx.find("griddepcontrol") != ptx.npos) return ptx;
  const size_t target = ptx.find(".target sm_80"), entry = ptx.find(".entry "), body = ptx.find("\n{\n", entry);
  if (entry == ptx.npos || body == ptx.npos) throw Error("expected PTX with an entry point");
  ptx.insert(body + 3, "\tgriddepcontrol.wait;\n");
  if (target != ptx.npos) ptx.replace(target, 13, ".target sm_90");
  return ptx;
}

}  // namespace mpsx::driver::cuda
