// Which of the driver's buffers an address lies in, and when each block of it was last used.
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

// Buffers by address. Any thread may ask while another adds.
class Segments {
 public:
  // A buffer cut into blocks of `block_bytes`. One that is here already gets one owner more.
  void add(const driver::Buffer& buffer, size_t block_bytes);
  // One owner less; the last takes the buffer out.
  void remove(const driver::Buffer& buffer);

  // Throws for an address that is in none.
  Location locate(const void* p) const;
  // 0 for an address that is in none.
  uint64_t last_use(const void* p) const;

 private:
  struct Segment {
    Segment(const driver::Buffer& b, size_t block)
        : buffer(b), block_bytes(block), last_uses(new std::atomic<uint64_t>[b.size / block + 1]()) {}
    std::atomic<uint64_t>* last_use(size_t offset) const { return &last_uses[offset / block_bytes]; }

    driver::Buffer buffer;
    size_t block_bytes;
    std::unique_ptr<std::atomic<uint64_t>[]> last_uses;
    uint32_t owners = 1;  // the cache, and blocks that share the buffer with somebody else
  };

  // The caller holds mutex_.
  std::pair<const Segment*, size_t> find(const void* p) const;

  mutable std::shared_mutex mutex_;
  std::map<const void*, Segment> segments_;
};

}  // namespace mpsx::runtime
