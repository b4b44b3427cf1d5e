#include <metal_stdlib>
using namespace metal;
#define TWICE(x) (2 * (x))
struct Params {
  uint n;
};
constant float table[2] = {1.0, 2.0};
inline float scale(float x, float y) { return x * y; }
template <typename T>
T broken(T x) {
  return x.missing;
//        ^ member reference base type 'float' is not a structure or union
}
kernel void names(device float* out [[buffer(0)]], constant Params& p [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
  out[i] = 1.0 + 2.0 + nowhere(out[i], 3.0);
//                     ^ use of undeclared identifier 'nowhere'
  out[i] = TWICE(elsewhere);
//               ^ use of undeclared identifier 'elsewhere'
  out[i] = 0.5 * scale(1.0);
//               ^ no matching function for call to 'scale'
  table[0] = 3.0;
//         ^ cannot assign to variable 'table' with const-qualified type
  p.n = 3;
//    ^ cannot assign to variable 'p' with const-qualified type
  bfloat b = 1.0h;
//       ^ cannot convert 'half' to 'bfloat' implicitly
  out[i] = broken(out[i]) + float(b)
//                                  ^ expected ';' after expression
}
