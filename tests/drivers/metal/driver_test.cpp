// Tests the Metal driver without torch: `driver_test DIRECTORY [case…]`. DIRECTORY contains mpsx.metallib. Every case
// must release all Metal objects.
#include <unistd.h>

#include "check.h"

std::vector<test::Case>& test::cases() {
  static std::vector<Case> all;
  return all;
}

using namespace test;

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string directory = argv[1];
  for (const Case& c : cases()) {
    bool wanted = argc == 2;
    for (int i = 2; i < argc; ++i) wanted |= std::string(argv[i]) == c.name;
    if (!wanted) continue;
    std::printf("%s\n", c.name);
    std::fflush(stdout);
    c.run(directory);
    // The queue's thread releases the last command buffer shortly after it completes.
    for (int i = 0; i < 2000 && mpsx_emulation_live(nullptr); ++i) usleep(1000);
    if (mpsx_emulation_live(nullptr)) {
      mpsx_emulation_print_live();
      return 1;
    }
  }
  return 0;
}
