"""mpsx.compile_shader with PyTorch's Metal headers (c10/metal/*.h)."""

import contextlib
import warnings

import pytest
import torch
from deferred_errors import errors_are_deferred, raises_after_sync

import mpsx


def test_torch_headers():
    lib = mpsx.compile_shader("""
        #include <c10/metal/utils.h>
        #include <c10/metal/special_math.h>
        kernel void f(device float* y, constant float* x, uint i [[thread_position_in_grid]]) {
          y[i] = c10::metal::erf(x[i]) + c10::metal::max(x[i], 0.25f);
        }""")
    x = torch.linspace(-3, 3, 1001)
    y = torch.empty(1001, device="mpsx")
    lib.f(y, x.to("mpsx"))
    torch.testing.assert_close(y.cpu(), x.erf() + x.clamp(min=0.25), atol=2e-6, rtol=1e-5)


TAKE = """
    #include <c10/metal/error.h>
    kernel void take(device float* out, constant float* x, constant long* index, constant long& n,
                     device c10::metal::ErrorMessages* errors, uint i [[thread_position_in_grid]]) {
      if (index[i] < 0 || index[i] >= n) {
        TORCH_REPORT_ERROR(errors, "index ", index[i], " out of range [0, ", n, ")");
        return;
      }
      out[i] = x[index[i]];
    }"""


def test_reported_errors():
    lib = mpsx.compile_shader(TAKE)
    x, out = torch.rand(10, device="mpsx"), torch.zeros(4, device="mpsx")
    good = torch.tensor([1, 9, 0, 3]).to("mpsx")
    lib.take(out, x, good, 10, error_buf_idx=4)
    assert torch.equal(out.cpu(), x.cpu()[good.cpu()])
    for bad, value in (([1, 10, 0, 3], "10"), ([-1234567, 2, 3, 4], "-1234567")):
        index = torch.tensor(bad).to("mpsx")
        message = rf"take: index {value} out of range \[0, 10\) \(program_source:6"
        with raises_after_sync(torch.AcceleratorError, message):
            lib.take(out, x, index, 10, error_buf_idx=4)
    with raises_after_sync(torch.AcceleratorError, r"; 3 more$"):
        lib.take(out, x, torch.full((4,), 99).to("mpsx"), 10, error_buf_idx=4)
    lib.take(out, x, good, 10, error_buf_idx=4)  # the error buffer was cleared
    torch.mpsx.synchronize()


@pytest.mark.parametrize("wait", [torch.Tensor.cpu, lambda out: out[0].item(), lambda out: out.tolist()])
def test_reading_a_result_raises_the_reported_error(wait):
    """The first call that waits for the kernel raises its error, even if later kernels succeed."""
    lib = mpsx.compile_shader(TAKE)
    x, out = torch.rand(10, device="mpsx"), torch.zeros(4, device="mpsx")
    bad, good = torch.tensor([1, 10, 0, 3]).to("mpsx"), torch.tensor([1, 9, 0, 3]).to("mpsx")
    with pytest.raises(torch.AcceleratorError, match="take: index 10 out of range"):
        lib.take(out, x, bad, 10, error_buf_idx=4)
        lib.take(out, x, good, 10, error_buf_idx=4)
        wait(out)
    wait(out)
    torch.mpsx.synchronize()


def test_launches_do_not_wait_for_the_reported_errors():
    """A launch on an asynchronous driver returns before the kernel ends, so it cannot raise the kernel's error."""
    if not errors_are_deferred():
        pytest.skip("this driver runs kernels inside the launch")
    lib = mpsx.compile_shader(TAKE)
    x, out = torch.rand(10, device="mpsx"), torch.zeros(4, device="mpsx")
    bad = torch.tensor([1, 10, 0, 3]).to("mpsx")
    for _ in range(100):
        lib.take(out, x, bad, 10, error_buf_idx=4)
    with pytest.raises(torch.AcceleratorError, match="take: index 10 out of range"):
        torch.mpsx.synchronize()


def test_a_freed_library_leaves_no_error_behind():
    """The next library reuses the error buffer. The destructor cannot raise, so it warns about an unread error."""
    x, out = torch.rand(10, device="mpsx"), torch.zeros(4, device="mpsx")
    lib = mpsx.compile_shader(TAKE)
    bad, good = torch.tensor([1, 10, 0, 3]).to("mpsx"), torch.tensor([1, 9, 0, 3]).to("mpsx")
    with contextlib.suppress(torch.AcceleratorError):
        lib.take(out, x, bad, 10, error_buf_idx=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del lib
    again = mpsx.compile_shader(TAKE.replace("take", "take_again"))
    again.take_again(out, x, good, 10, error_buf_idx=4)
    torch.mpsx.synchronize()
    assert torch.equal(out.cpu(), x.cpu()[good.cpu()])
