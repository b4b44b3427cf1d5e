// wgmma.mma_async for 64 x N tiles. Computes d += a b, or d = a b if `add` is 0. a is a matrix descriptor or the four
// registers of a fragment, and b is a matrix descriptor. TRANSPOSE_A and TRANSPOSE_B are 1 if the operand is contiguous
// along m or n, respectively.
#pragma once

namespace mpsx {
#define MPSX_D4(K, i) "+" K(d[i]), "+" K(d[i + 1]), "+" K(d[i + 2]), "+" K(d[i + 3])
#define MPSX_D16(K, i) MPSX_D4(K, i), MPSX_D4(K, i + 4), MPSX_D4(K, i + 8), MPSX_D4(K, i + 12)
#define MPSX_D32(K, i) MPSX_D16(K, i), MPSX_D16(K, i + 16)
#define MPSX_D48(K, i) MPSX_D32(K, i), MPSX_D16(K, i + 32)
#define MPSX_D64(K, i) MPSX_D32(K, i), MPSX_D32(K, i + 32)
#define MPSX_D80(K, i) MPSX_D64(K, i), MPSX_D16(K, i + 64)
#define MPSX_D96(K, i) MPSX_D64(K, i), MPSX_D32(K, i + 64)
#define MPSX_D112(K, i) MPSX_D96(K, i), MPSX_D16(K, i + 96)
#define MPSX_D128(K, i) MPSX_D64(K, i), MPSX_D64(K, i + 64)
#define MPSX_R16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define MPSX_R32 MPSX_R16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define MPSX_R48 MPSX_R32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define MPSX_R64 MPSX_R48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define MPSX_R80 MPSX_R64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define MPSX_R96 MPSX_R80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define MPSX_R112 MPSX_R96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define MPSX_R128 MPSX_R112 ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

// R is the number of accumulator registers, N / 2. X0, X1, … are the indices of the asm operands after them.
#define MPSX_WGMMA(NAME, TYPE, K, N, R, X0, X1, X2, X3, X4)                                                          \
  template <int TRANSPOSE_A, int TRANSPOSE_B>                                                                        \
  MPSX_FN void wgmma_##NAME(float (&d)[R], unsigned long a, unsigned long b, int add) {                              \
    __asm__ volatile("\t{\n.reg .pred p;\nsetp.ne.b32 p, %" #X2 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N K       \
                     ".f32." TYPE "." TYPE " {" MPSX_R##R "}, %" #X0 ", %" #X1 ", p, 1, 1, %" #X3 ", %" #X4 ";\n\t}" \
                     : MPSX_D##R("f", 0)                                                                             \
                     : "l"(a), "l"(b), "r"(add), "n"(TRANSPOSE_A), "n"(TRANSPOSE_B));                                \
  }
#define MPSX_WGMMA_REGISTERS(NAME, TYPE, K, N, R, X0, X1, X2, X3, X4, X5, X6)                                  \
  template <int TRANSPOSE_B>                                                                                   \
  MPSX_FN void wgmma_##NAME(float (&d)[R], const unsigned (&a)[4], unsigned long b, int add) {                 \
    __asm__ volatile("\t{\n.reg .pred p;\nsetp.ne.b32 p, %" #X5 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N K \
                     ".f32." TYPE "." TYPE " {" MPSX_R##R "}, {%" #X0 ", %" #X1 ", %" #X2 ", %" #X3 "}, %" #X4 \
                                                          ", p, 1, 1, %" #X6 ";\n\t}"                          \
                     : MPSX_D##R("f", 0)                                                                       \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(TRANSPOSE_B));        \
  }
// tf32 operands must be contiguous along k, so they have no transposed variants.
#define MPSX_WGMMA_TF32(N, R, X0, X1, X2, X3, X4, X5)                                                        \
  MPSX_FN void wgmma_tf32(float (&d)[R], const unsigned (&a)[4], unsigned long b, int add) {                 \
    __asm__ volatile("\t{\n.reg .pred p;\nsetp.ne.b32 p, %" #X5 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N \
                     "k8.f32.tf32.tf32 {" MPSX_R##R "}, {%" #X0 ", %" #X1 ", %" #X2 ", %" #X3 "}, %" #X4     \
                                                    ", p, 1, 1;\n\t}"                                        \
                     : MPSX_D##R("f", 0)                                                                     \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                        \
  }
// Keeps LLVM from reading accumulators before the preceding wgmma_wait().
#define MPSX_WGMMA_HOLD(R) \
  MPSX_FN void wgmma_hold(float (&d)[R]) { __asm__ volatile("" : MPSX_D##R("f", 0)::"memory"); }
#define MPSX_WGMMA_SIZE(N, R, X0, X1, X2, X3, X4, X5, X6)                     \
  MPSX_WGMMA(f16, "f16", "k16", N, R, X0, X1, X2, X3, X4)                     \
  MPSX_WGMMA(bf16, "bf16", "k16", N, R, X0, X1, X2, X3, X4)                   \
  MPSX_WGMMA_REGISTERS(f16, "f16", "k16", N, R, X0, X1, X2, X3, X4, X5, X6)   \
  MPSX_WGMMA_REGISTERS(bf16, "bf16", "k16", N, R, X0, X1, X2, X3, X4, X5, X6) \
  MPSX_WGMMA_TF32(N, R, X0, X1, X2, X3, X4, X5)                               \
  MPSX_WGMMA_HOLD(R)
MPSX_WGMMA_SIZE(32, 16, 16, 17, 18, 19, 20, 21, 22)
MPSX_WGMMA_SIZE(64, 32, 32, 33, 34, 35, 36, 37, 38)
MPSX_WGMMA_SIZE(96, 48, 48, 49, 50, 51, 52, 53, 54)
MPSX_WGMMA_SIZE(128, 64, 64, 65, 66, 67, 68, 69, 70)
MPSX_WGMMA_SIZE(160, 80, 80, 81, 82, 83, 84, 85, 86)
MPSX_WGMMA_SIZE(192, 96, 96, 97, 98, 99, 100, 101, 102)
MPSX_WGMMA_SIZE(224, 112, 112, 113, 114, 115, 116, 117, 118)
MPSX_WGMMA_SIZE(256, 128, 128, 129, 130, 131, 132, 133, 134)
// wgmma reads the registers of an operand until wgmma_wait() returns. Call keep_operand() after that, because LLVM
// might otherwise reuse the registers earlier, for the fragments of the next tile.
MPSX_FN void keep_operand(const unsigned (&a)[4]) {
  __asm__ volatile("" ::"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]) : "memory");
}
constexpr bool is_wgmma_width(int n) { return n >= 32 && n <= 256 && n % 32 == 0; }
#undef MPSX_WGMMA
#undef MPSX_WGMMA_REGISTERS
#undef MPSX_WGMMA_TF32
#undef MPSX_WGMMA_HOLD
#undef MPSX_WGMMA_SIZE
}  // namespace mpsx
