// Pointers and references to constant memory. constexpr makes the pointer const, not its target (section 4.2).
#include <metal_stdlib>
using namespace metal;

constant half table[2] = {1.0h, 2.0h};
constant int grid[2][3] = {{1, 2, 3}, {4, 5, 6}};
constant half* constant whole = table;
inline half look_up(uint i) {
  constexpr constant half* p = table;
  constexpr const constant half* q = &table[1];
  static constexpr constant half* s = table;
  constexpr constant half& r = table[0];
  constant half* const w = table;
  constexpr constant int(*g)[3] = grid;
  return p[i] + q[0] + s[i] + r + w[i] + whole[i] + half(g[i][1]);
}
kernel void k(device half* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = look_up(i & 1); }
