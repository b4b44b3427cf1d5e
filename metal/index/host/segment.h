// CPU vectors are longer than 16 bytes.
template <typename T>
constexpr constant uint sum_pack = 64 / sizeof(T);
