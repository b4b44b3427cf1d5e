"""A pytest plugin of upstream_tests.py: names of PyTorch 2.6's test library that later versions lack.

Without them the test files of 2.6 cannot be imported.
"""

import torch.testing._internal.common_methods_invocations as operators
from torch.testing._internal import common_cuda, common_mkldnn, common_nn


def supply(module: object, name: str, value: object) -> None:
    """Sets what is not there."""
    if not hasattr(module, name):
        setattr(module, name, value)


supply(common_cuda, "tf32_is_not_fp32", lambda: False)  # no GPU of NVIDIA's
supply(common_mkldnn, "bf32_on_and_off", lambda *_, **__: lambda test: test)
if hasattr(common_nn, "get_new_module_tests"):
    supply(common_nn, "new_module_tests", common_nn.get_new_module_tests())
supply(operators, "binary_ufuncs_and_refs", operators.binary_ufuncs)
