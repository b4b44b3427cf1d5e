// All differences between the torch versions that mpsx supports (2.11 to 2.15). No other file checks the torch version.
#pragma once

#include <torch/version.h>

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 11 || TORCH_VERSION_MINOR > 15
#  error "mpsx builds against torch 2.11 to 2.15"
#endif

// Up to torch 2.12, MetaBase's virtual functions take the output's dimension names as the last parameter.
#if TORCH_VERSION_MINOR < 13
#  define MPSX_DIMNAMES , at::DimnameList
#else
#  define MPSX_DIMNAMES
#endif

// DeviceGuardImplInterface::isStreamCapturing was added in torch 2.13.
#if TORCH_VERSION_MINOR >= 13
#  define MPSX_SINCE_2_13(...) __VA_ARGS__
#else
#  define MPSX_SINCE_2_13(...)
#endif
