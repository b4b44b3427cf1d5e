// Maps addresses to the driver's buffers, and tracks when each block was last used.
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

// Buffers by address. Thread-safe.
class Segments {
 public:
  // Adds a buffer that is cut into blocks of `block_bytes`, or an owner if it is known already.
  void add(const driver::Buffer& buffer, size_t block_bytes);
  // Removes an owner, and with the last one the buffer.
  void remove(const driver::Buffer& buffer);

  // Throws if no buffer contains the address.
  Location locate(const void* p) const;
  // 0 if no buffer contains the address.
  uint64_t last_use(const void* p) const;
  // The CPU is about to use the block; kernels that come after it have it brought back.
  void touch(const void* p) const;

 private:
  struct Segment {
    Segment(const driver::Buffer& b, size_t block)
        : buffer(b), block_bytes(block), last_uses(new std::atomic<uint64_t>[b.size / block + 1]()),
          touched(new std::atomic<bool>[b.size / block + 1]()) {}
    std::atomic<uint64_t>* last_use(size_t offset) const { return &last_uses[offset / block_bytes]; }

    driver::Buffer buffer;
    size_t block_bytes;
    std::unique_ptr<std::atomic<uint64_t>[]> last_uses;
    std::unique_ptr<std::atomic<bool>[]> touched;  // by the CPU, since a kernel used the block
    uint32_t owners = 1;  // the cache, and blocks that share the buffer with somebody else
  };

  // The caller holds mutex_.
  std::pair<const Segment*, size_t> find(const void* p) const;

  mutable std::shared_mutex mutex_;
  std::map<const void*, Segment> segments_;
};

}  // namespace mpsx::runtime
