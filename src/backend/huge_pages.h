// Results that CPU libraries allocate for us, in huge pages.
#pragma once

namespace mpsx::backend {

// While one lives, large CPU tensors that this thread makes lie in huge pages, where the system has them (Linux with
// transparent huge pages): touching fresh memory, which the results of convolutions are, costs a third. Other threads,
// and CPU tensors outside our calls, are served as before.
class HugePages {
 public:
  HugePages();
  ~HugePages();
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;
};

}  // namespace mpsx::backend
