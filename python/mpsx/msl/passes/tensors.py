"""Lower the types of Metal 4 tensors. C++ types have no address spaces, so mark tensors in threadgroup memory."""

import re

# Identifiers that occur only in sources that use tensors. Tensor operations take their descriptor as a template
# argument, which requires a later C++ standard than the rest of Metal.
TENSORS = re.compile(r"\b(?:dextents|tensor_(?:handle|offset|inline|ops)|cooperative_tensor|matmul2d|convolution2d)\b")


def uses_tensors(text):
    """Return whether a preprocessed or translated source uses Metal 4 tensors."""
    return TENSORS.search(text) is not None


def mark_threadgroup_elements(src):
    """Replace `tensor<threadgroup T, …>` with a tensor of threadgroup_space<T>. Return the removed tokens."""
    done = set()
    for i, t in enumerate(src.texts):
        if t != "tensor" or src.texts[i + 1:i + 2] != ["<"]:
            continue
        begin, end = src.split(i + 2, src.angle_end(i + 1))[0]
        spaces = [k for k in range(begin, end) if src.texts[k] == "threadgroup"]
        if spaces:
            src.replace(spaces[0], spaces[0] + 1)
            src.wrap(begin, end, "::mpsx::threadgroup_space<", ">")
            done.update(spaces)
    return done
