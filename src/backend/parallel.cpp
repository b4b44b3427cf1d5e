#include "backend/parallel.h"

#include <ATen/Parallel.h>
#include <c10/util/ParallelGuard.h>
#ifdef __APPLE__
#  include <dispatch/dispatch.h>
#endif

#include <algorithm>
#include <atomic>
#include <exception>

// The template at::parallel_for runs in parallel only in files compiled with OpenMP. clang would link such a file
// against LLVM's OpenMP runtime, although PyTorch has already loaded GNU's. So GOMP_parallel is called instead. It is
// the entry point of libgomp for code compiled by GCC, and LLVM's and Intel's libomp also export it for compatibility.
// The declarations are weak, because PyTorch may have been built without OpenMP. It then has only one thread.
extern "C" {
__attribute__((weak)) void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags);
__attribute__((weak)) int omp_get_num_threads();
__attribute__((weak)) int omp_get_thread_num();
}

namespace mpsx::backend {
namespace {

struct Work {
  uint64_t total, grain;
  const std::function<void(uint64_t, uint64_t)>& body;
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  std::exception_ptr error = nullptr;

  // Runs thread `index`'s part of the range, which is split among `count` threads as in at::parallel_for.
  void run_part(uint64_t index, uint64_t count) noexcept {
    const uint64_t parts = std::min(count, (total + grain - 1) / grain);
    const uint64_t length = (total + parts - 1) / parts, begin = index * length;
    if (begin >= total) return;
    try {
      const at::internal::ThreadIdGuard thread(static_cast<int>(index));
      const c10::ParallelGuard parallel(true);
      body(begin, std::min(total, begin + length));
    } catch (...) {
      if (!failed.test_and_set()) error = std::current_exception();
    }
  }
};

}  // namespace

void parallel_for(uint64_t total, uint64_t grain, const std::function<void(uint64_t, uint64_t)>& body) {
  if (total == 0) return;
  grain = std::max<uint64_t>(grain, 1);
  const int threads = at::get_num_threads();
  if (total <= grain || threads == 1 || at::in_parallel_region()) return body(0, total);
  Work work{total, grain, body};
#ifdef __APPLE__
  struct Context {
    Work* work;
    uint64_t count;
  } context{&work, uint64_t(threads)};
  dispatch_apply_f(context.count, DISPATCH_APPLY_AUTO, &context, [](void* p, size_t index) {
    static_cast<Context*>(p)->work->run_part(index, static_cast<Context*>(p)->count);
  });
#else
  if (!GOMP_parallel || !omp_get_num_threads || !omp_get_thread_num) return body(0, total);
  GOMP_parallel(
      [](void* p) { static_cast<Work*>(p)->run_part(uint64_t(omp_get_thread_num()), uint64_t(omp_get_num_threads())); },
      &work, 0, 0);
#endif
  if (work.error) std::rethrow_exception(work.error);
}

}  // namespace mpsx::backend
