// CPU vectors are longer than 16 bytes.
template <typename T>
constexpr constant uint sum_vec_size = 64 / sizeof(T);
