// Where the tiles of an operation start in its operands.
#pragma once

namespace mpsx {
// An operation that multiplies its whole operands once. multiply_steps() passes a kernel's own type instead
// (metal/lib/multiply_steps.h), which describes a sum of several products.
struct single_product {
  int k;
  MPSX_FN int count() const { return 1; }
  MPSX_FN int depth() const { return k; }
  MPSX_FN int left_row(int) const { return 0; }
  MPSX_FN int right_row(int) const { return 0; }
  MPSX_FN int right_column(int) const { return 0; }
};

// Visits the tiles of all products in order. Each tile covers DEPTH steps of k.
template <class Steps, int DEPTH>
class tile_walk {
 public:
  explicit MPSX_FN tile_walk(const Steps& steps) : steps_(steps), depth_(steps.depth()) { start(0); }
  static MPSX_FN int tiles(const Steps& steps) { return steps.count() * ((steps.depth() + DEPTH - 1) / DEPTH); }
  MPSX_FN auto left_row() const { return left_row_; }
  MPSX_FN int left_column() const { return k_; }
  MPSX_FN int right_row() const { return right_row_; }
  MPSX_FN int right_column() const { return right_column_ + k_; }
  template <class Tile>
  MPSX_FN void load_left(unsigned to, const char* map, unsigned barrier) const {
    Tile::load(to, map, left_row(), left_column(), barrier);
  }
  template <class Tile>
  MPSX_FN void load_right(unsigned to, const char* map, unsigned barrier) const {
    Tile::load(to, map, right_row(), right_column(), barrier);
  }
  MPSX_FN void next() {
    k_ += DEPTH;
    if (k_ >= depth_ && step_ + 1 < steps_.count()) start(step_ + 1);
  }

 private:
  MPSX_FN void start(int step) {
    step_ = step, k_ = 0;
    left_row_ = steps_.left_row(step);
    right_row_ = steps_.right_row(step);
    right_column_ = steps_.right_column(step);
  }
  const Steps& steps_;
  decltype(steps_.left_row(0)) left_row_;  // an int or, of pixels, an index of four dimensions
  int depth_, step_, k_, right_row_, right_column_;
};

// Whether threads may have to copy tiles that the walk visits, because TMA cannot read an operand. TMA can read all
// operands of sums of several products.
template <class Walk>
constexpr bool may_copy = false;
template <int DEPTH>
constexpr bool may_copy<tile_walk<single_product, DEPTH>> = true;

// Visits the boxes of multiply_over_pixels() (metal/lib/multiply_pixels.h) in order.
template <class Steps>
class pixel_walk {
 public:
  explicit MPSX_FN pixel_walk(const Steps& steps) : steps_(steps) {}
  template <class Tile>
  MPSX_FN void load_left(unsigned to, const char* map, unsigned barrier) const {
    Tile::load(to, map, steps_.left_column(), steps_.left_row(box_), barrier);
  }
  template <class Tile>
  MPSX_FN void load_right(unsigned to, const char* map, unsigned barrier) const {
#pragma unroll
    for (int b = 0; b < Tile::kBoxes; ++b)
      load_box(to + unsigned(b) * Tile::kBoxBytes, map, steps_.right_column(b), steps_.right_row(box_, b), barrier);
  }
  MPSX_FN void next() { ++box_; }

 private:
  const Steps& steps_;
  int box_ = 0;
};
}  // namespace mpsx
