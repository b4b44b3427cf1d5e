"""Rules of Apple's headers for tensors, according to compilers on Macs (tensors.md)."""

from __future__ import annotations

import pytest
import torch

import mpsx

HEAD = """#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
typedef dextents<int, 2> sizes_2d;
"""
TENSORS = """  auto A = tensor(a, sizes_2d(32, 32));
  auto B = tensor(b, sizes_2d(32, 32));
  auto C = tensor(c, sizes_2d(32, 32));
"""
KERNEL = HEAD + "kernel void k(device half* a, device half* b, device float* c) {\n" + TENSORS
OPERATION = """  constexpr auto what = matmul2d_descriptor(32, 32, 32);
  matmul2d<what, execution_simdgroup> op;
"""
RUN = """  auto sum = op.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  op.run(A, B, sum);
"""
LEFT = "  auto left = op.get_left_input_cooperative_tensor<half, half, float>();\n"
CHAINED = """  constexpr auto next = matmul2d_descriptor(32, 32, 32, TRANSPOSE);
  matmul2d<next, execution_simdgroup> second;
  auto sum = op.get_destination_cooperative_tensor<decltype(A), decltype(B), TYPE>();
  op.run(A, B, sum);
  auto left = second.get_left_input_cooperative_tensor<half, half, float>(sum);
}
"""
REJECTED = {
    "const elements": (HEAD + "kernel void k(device const half* a, device half* b, device float* c) {\n" + TENSORS
                       + OPERATION + "  op.run(A, B, C);\n}", "expected operands without const elements"),
    "const destination": (KERNEL + OPERATION + "  tensor<device const float, sizes_2d, tensor_inline> D(c, "
                          "sizes_2d(32, 32));\n  op.run(A, B, D);\n}", "elements must not be const"),
    "temporary operand": (KERNEL + OPERATION + "  op.run(A.slice(0, 0), B, C);\n}", "expected variables as operands"),
    "store of another type": (KERNEL + OPERATION + RUN + "  sum.store(A);\n}", "the cooperative tensor's element type"),
    "load of another type": (KERNEL + OPERATION + RUN + "  sum.load(A);\n}", "the cooperative tensor's element type"),
    "operands of other types": (KERNEL.replace("device half* b", "device bfloat* b") + OPERATION
                                + RUN.replace("run(A, B", "run(B, A") + "}", "operands with other element types"),
    "cooperative operand of two SIMD groups": (
        KERNEL + OPERATION.replace("simdgroup>", "simdgroups<2>>") + LEFT + "}", "only execution_simdgroup"),
    "operand of a dynamic k": (KERNEL + OPERATION.replace("32, 32, 32", "32, 32") + LEFT + "}", "needs a static k"),
    "converted operand": (KERNEL + OPERATION + CHAINED.replace("TYPE", "float").replace("TRANSPOSE", "false"),
                          "element type of the left operand"),
    "transposed copy": (KERNEL + OPERATION + CHAINED.replace("TYPE", "half").replace("TRANSPOSE", "true"),
                        "cannot be transposed"),
    "handle of threadgroup memory": (
        HEAD + "kernel void k(device float* c) {\n  threadgroup half s[16];\n  tensor<threadgroup half, sizes_2d, "
        "tensor_handle> t(s, sizes_2d(4, 4));\n  c[0] = t[0, 0];\n}", "must be a tensor_inline"),
    "slice larger than the tensor": (
        HEAD + "kernel void k(device float* c) {\n  auto t = tensor(c, extents<int, 4, 4>());\n  "
        "t.slice<8, 4>(0, 0)[0, 0] = 1;\n}", "static extents exceed"),
}  # fmt: skip


@pytest.mark.parametrize("name", REJECTED)
def test_rejected(name: str) -> None:
    source, message = REJECTED[name]
    with pytest.raises(SyntaxError, match=message):
        mpsx.compile_shader(source)


def test_members_of_cooperative_tensors() -> None:
    """Elements can be named by index, iterator, and pointer, also in a const tensor."""
    source = KERNEL + OPERATION + RUN + """
      auto rows = op.get_row_reduction_destination_cooperative_tensor<decltype(A), decltype(B), float>();
      reduce_rows(sum, rows);
      const thread auto& all = sum;
      const thread auto& means = rows;
      bool same = all.begin() + all.get_capacity() == all.end() && is_tensor_inline_v<decltype(A)> &&
                  !is_tensor_handle_v<decltype(A)> && !has_tensor_offset_v<decltype(A)>;
      for (ushort i = 0; i < all.get_capacity(); ++i) {
        const auto at = all.get_multidimensional_index(i);
        const auto by_pointer = all.get_multidimensional_index(&all[i]);
        const auto by_iterator = all.get_multidimensional_index(sum.get_iterator(i));
        same = same && at[0] == by_pointer[0] && at[1] == by_iterator[1] && all.is_valid_element(&sum[i]) &&
               all.is_valid_element(all.get_iterator(&all[i])) && *sum.get_iterator(&sum[i]) == all.get(i);
        C[at[0], at[1]] = all[i] - *means.map_iterator(all.get_iterator(i));
      }
      if (!same) c[0] = NAN;
    }"""  # fmt: skip
    a, b = torch.randint(-4, 5, (32, 32)).half(), torch.randint(-4, 5, (32, 32)).half()
    c = torch.zeros(32, 32, device="mpsx")
    mpsx.compile_shader(source).k(a.to("mpsx"), b.to("mpsx"), c, threads=32, group_size=32)
    product = a.float() @ b.float()
    assert torch.equal(c.cpu(), product - product.sum(1, keepdim=True))


def test_type_of_slices() -> None:
    """The slice of a tensor_handle has the tag tensor_offset, and that of a tensor_inline has no tag."""
    source = HEAD + """
    float first(thread tensor<device float, sizes_2d, tensor_handle, tensor_offset>& t) { return t[0, 0]; }
    kernel void k(tensor<device float, sizes_2d> a [[buffer(0)]], device float* c [[buffer(1)]]) {
      auto part = a.slice(1, 2);
      auto again = part.slice(1, 0);
      static_assert(is_same_v<decltype(part), decltype(again)>, "the tag is not repeated");
      static_assert(has_tensor_offset_v<decltype(part)> && is_tensor_handle_v<decltype(part)>, "a slice of a handle");
      auto own = tensor(c, sizes_2d(2, 1));
      auto inner = own.slice(1, 0);
      static_assert(is_same_v<decltype(own), decltype(inner)>, "a slice of a tensor_inline");
      inner[0, 0] = first(part) + first(again);
    }"""
    a, c = torch.arange(12.0).view(3, 4), torch.zeros(2, device="mpsx")
    mpsx.compile_shader(source).k(a.to("mpsx"), c, threads=1)
    assert c.tolist() == [0, a[2, 1] + a[2, 2]]
