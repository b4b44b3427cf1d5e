#pragma once

#include "lib/shared.h"

// Planes of (height, width) in groups of factor * factor, and the planes of (height * factor, width * factor) that each
// group makes.
struct PixelShuffleParams {
  uint32_t factor, height, width;
};
