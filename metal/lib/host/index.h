// A thread takes one element, and the driver's loop over threads becomes one of vectors.
template <typename T>
inline uint lane_count(uint, uint) { return 1; }
