// Maps addresses to driver buffers and tracks the last use of each block.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>

#include "driver/driver.h"
#include "runtime/allocator.h"

namespace mpsx::runtime {

// A thread-safe map from addresses to buffers.
class Segments {
 public:
  // Adds a buffer that is split into blocks of `block_bytes` bytes. If the map already contains the buffer, increments
  // its owner count.
  void add(const driver::Buffer& buffer, size_t block_bytes);
  // Decrements the buffer's owner count and removes the buffer when the count reaches 0.
  void remove(const driver::Buffer& buffer);

  // Returns the buffer and the offset of an address. Throws if no buffer contains the address.
  Location locate(const void* p) const;
  // Returns 0 if no buffer contains the address.
  uint64_t last_use_seq(const void* p) const;
  // Records that the CPU is about to access the block, so that the next locate() prefetches it for the kernel.
  void note_cpu_access(const void* p) const;

 private:
  struct Segment {
    Segment(const driver::Buffer& b, size_t block)
        : buffer(b),
          block_bytes(block),
          last_use_seqs(new std::atomic<uint64_t>[b.size / block + 1]()),
          accessed_by_cpu(new std::atomic<bool>[b.size / block + 1]()) {}
    std::atomic<uint64_t>* last_use_seq(size_t offset) const { return &last_use_seqs[offset / block_bytes]; }

    driver::Buffer buffer;
    size_t block_bytes;
    std::unique_ptr<std::atomic<uint64_t>[]> last_use_seqs;
    std::unique_ptr<std::atomic<bool>[]> accessed_by_cpu;  // set until a kernel uses the block again
    uint32_t owners = 1;  // the cache and each block that shares another library's buffer count as owners
  };

  // The caller must hold mutex_.
  std::pair<const Segment*, size_t> find(const void* p) const;

  // Like find(), but does not need the mutex. `p` must be in use, so that its segment cannot be removed meanwhile.
  const Segment& find_used(const void* p) const;

  mutable std::shared_mutex mutex_;
  std::map<const void*, Segment> segments_;
  std::atomic<uint64_t> removals_{1};
};

}  // namespace mpsx::runtime
