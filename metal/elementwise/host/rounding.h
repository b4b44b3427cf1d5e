// If x was converted from half, the compiler would round in half precision, one element at a time. Adding 0 prevents
// that but turns -0 into 0, so copysign restores the sign.
inline float floor_of(float x) { return copysign(floor(x + 0.0f), x); }
inline float ceil_of(float x) { return copysign(ceil(x + 0.0f), x); }
inline float trunc_of(float x) { return copysign(trunc(x + 0.0f), x); }
inline float nearest_of(float x) { return copysign(rint(x + 0.0f), x); }
