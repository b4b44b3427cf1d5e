// A thread takes one element, and the driver's loop over threads becomes one of vectors.
template <typename T>
constexpr constant uint lanes = 1;
