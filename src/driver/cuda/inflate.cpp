#include "driver/cuda/inflate.h"

#include <array>
#include <cstdint>
#include <vector>

#include "driver/driver.h"

namespace mpsx::driver::cuda {
namespace {

[[noreturn]] void damaged() { throw Error("the library of PTX is damaged; reinstall mpsx"); }

class Bits {
 public:
  explicit Bits(std::string_view data) : data_(data) {}
  uint32_t take(unsigned count) {
    while (held_ < count) {
      if (at_ == data_.size()) damaged();
      bits_ |= uint64_t(uint8_t(data_[at_++])) << held_;
      held_ += 8;
    }
    const auto value = uint32_t(bits_ & ((uint64_t(1) << count) - 1));
    bits_ >>= count;
    held_ -= count;
    return value;
  }
  void skip_to_byte() { take(held_ % 8); }

 private:
  std::string_view data_;
  size_t at_ = 0;
  uint64_t bits_ = 0;
  unsigned held_ = 0;
};

// A Huffman code, given by the lengths of its words: those of one length are consecutive numbers (RFC 1951, 3.2.2).
class Code {
 public:
  Code(const uint8_t* lengths, size_t count) : symbols_(count) {
    for (size_t i = 0; i < count; ++i) ++counts_[lengths[i]];
    counts_[0] = 0;
    std::array<uint16_t, kLongest + 2> first{};
    for (size_t length = 1; length <= kLongest; ++length) first[length + 1] = uint16_t(first[length] + counts_[length]);
    for (size_t i = 0; i < count; ++i)
      if (lengths[i]) symbols_[first[lengths[i]]++] = uint16_t(i);
  }
  unsigned read(Bits& bits) const {
    int word = 0, first = 0;
    size_t index = 0;
    for (size_t length = 1; length <= kLongest; ++length) {
      word |= int(bits.take(1));
      const int count = counts_[length];
      if (word - first < count) return symbols_[index + size_t(word - first)];
      index += size_t(count);
      first = (first + count) << 1;
      word <<= 1;
    }
    damaged();
  }

 private:
  static constexpr size_t kLongest = 15;
  std::array<uint16_t, kLongest + 1> counts_{};
  std::vector<uint16_t> symbols_;
};

struct Codes {
  Code literals, distances;
};

Codes fixed_codes() {
  std::array<uint8_t, 288> lengths{};
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  std::array<uint8_t, 30> distances{};
  distances.fill(5);
  return {Code(lengths.data(), lengths.size()), Code(distances.data(), distances.size())};
}

Codes read_codes(Bits& bits) {
  constexpr uint8_t kOrder[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  const size_t literals = bits.take(5) + 257, distances = bits.take(5) + 1, given = bits.take(4) + 4;
  uint8_t of_lengths[19] = {};
  for (size_t i = 0; i < given; ++i) of_lengths[kOrder[i]] = uint8_t(bits.take(3));
  const Code code(of_lengths, 19);
  std::vector<uint8_t> lengths;
  while (lengths.size() < literals + distances) {
    const unsigned symbol = code.read(bits);
    if (symbol < 16) {
      lengths.push_back(uint8_t(symbol));
      continue;
    }
    if (symbol == 16 && lengths.empty()) damaged();
    const uint8_t repeated = symbol == 16 ? lengths.back() : uint8_t(0);
    const size_t times = symbol == 16 ? 3 + bits.take(2) : symbol == 17 ? 3 + bits.take(3) : 11 + bits.take(7);
    lengths.insert(lengths.end(), times, repeated);
  }
  if (lengths.size() != literals + distances) damaged();
  return {Code(lengths.data(), literals), Code(lengths.data() + literals, distances)};
}

void read_block(Bits& bits, const Codes& codes, std::string& out, size_t size) {
  constexpr uint16_t kLengths[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                     31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
  constexpr uint8_t kLengthBits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                       2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
  for (;;) {
    const unsigned symbol = codes.literals.read(bits);
    if (symbol == 256) return;
    if (symbol < 256) {
      out.push_back(char(symbol));
      continue;
    }
    if (symbol > 285) damaged();
    size_t length = kLengths[symbol - 257] + bits.take(kLengthBits[symbol - 257]);
    const unsigned far = codes.distances.read(bits);
    if (far > 29) damaged();
    const unsigned extra = far < 2 ? 0 : far / 2 - 1;
    const size_t distance = (far < 2 ? far : (2 + far % 2) << extra) + bits.take(extra) + 1;
    if (distance > out.size() || out.size() + length > size) damaged();
    for (; length; --length) out.push_back(out[out.size() - distance]);  // may overlap what it writes
  }
}

}  // namespace

std::string inflate(std::string_view data, size_t size) {
  if (data.size() < 6 || (data[0] & 15) != 8) damaged();
  Bits bits(data.substr(2));
  std::string out;
  out.reserve(size);
  for (bool last = false; !last;) {
    last = bits.take(1);
    switch (bits.take(2)) {
      case 0: {
        bits.skip_to_byte();
        size_t length = bits.take(16);
        if ((length ^ bits.take(16)) != 0xffff || out.size() + length > size) damaged();
        for (; length; --length) out.push_back(char(bits.take(8)));
        break;
      }
      case 1: read_block(bits, fixed_codes(), out, size); break;
      case 2: read_block(bits, read_codes(bits), out, size); break;
      default: damaged();
    }
  }
  if (out.size() != size) damaged();
  return out;
}

}  // namespace mpsx::driver::cuda
