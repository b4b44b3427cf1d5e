// All differences between the PyTorch versions that mpsx supports (2.11 to 2.14). No other file checks the version.
#pragma once

#include <torch/version.h>

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 11 || TORCH_VERSION_MINOR > 14
#  error "mpsx builds against torch 2.11 to 2.14"
#endif

// Up to PyTorch 2.12, MetaBase's virtual functions have the output's dimension names as their last parameter.
#if TORCH_VERSION_MINOR < 13
#  define MPSX_DIMNAMES , at::DimnameList
#else
#  define MPSX_DIMNAMES
#endif

// PyTorch 2.13 added DeviceGuardImplInterface::isStreamCapturing.
#if TORCH_VERSION_MINOR >= 13
#  define MPSX_SINCE_2_13(...) __VA_ARGS__
#else
#  define MPSX_SINCE_2_13(...)
#endif

namespace mpsx::backend {

// Before PyTorch 2.14, arange truncates start, end, and step before it computes the length of an int64 result.
inline constexpr bool kArangeTruncatesFirst = TORCH_VERSION_MINOR < 14;
// Since PyTorch 2.14, replication padding rejects results without elements in any spatial dimension, not only in all.
inline constexpr bool kReplicationRejectsEmpty = TORCH_VERSION_MINOR >= 14;

}  // namespace mpsx::backend

// PyTorch 2.14 removed aten::cholesky. aten::linalg_cholesky_ex remains.
#define MPSX_HAS_CHOLESKY (TORCH_VERSION_MINOR < 14)
