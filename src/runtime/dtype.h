// The element types that kernels are instantiated for, with their tags in kernel names ("f32" in "softmax_f32").
#pragma once

#include <cstddef>
#include <cstdint>

namespace mpsx::runtime {

enum class Tag : uint8_t { f32, f16, bf16, i64, i32, i16, i8, u8, b8, c64, none };
inline constexpr size_t kTags = static_cast<size_t>(Tag::none);

// Tags in kernel names. In C++, the tag of bool is b8, because bool is a keyword.
inline constexpr const char* kTagNames[] = {"f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool", "c64", ""};
inline constexpr uint8_t kTagSizes[] = {4, 2, 2, 8, 4, 2, 1, 1, 1, 8, 0};

constexpr const char* name(Tag tag) { return kTagNames[static_cast<size_t>(tag)]; }
constexpr size_t size_of(Tag tag) { return kTagSizes[static_cast<size_t>(tag)]; }

}  // namespace mpsx::runtime
