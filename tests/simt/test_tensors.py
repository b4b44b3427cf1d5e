"""With MPSX_DRIVER=simt, an access past the last byte of a storage is an error, no matter what allocated it."""

import os
import subprocess
import sys

SCRIPT = r"""
import re
import torch
import mpsx

SOURCE = '''
kernel void shift(device float* out, device const float* in, uint i [[thread_position_in_grid]]) {
  out[i] = in[i + 1];
}
kernel void store(device float* out, constant uint& at, uint i [[thread_position_in_grid]]) {
  if (i == 0) out[at] = 1.0f;
}
'''
lib = mpsx.compile_shader(SOURCE)
out = torch.zeros(300, device="mpsx")


def runs(x, n):
    lib.shift(out, x, threads=n)
    assert torch.equal(out[:n].cpu(), mpsx.cpu_view(x).as_strided((n + 1,), (1,), x.storage_offset())[1:])


def fails(x, n, size):
    try:
        lib.shift(out, x, threads=n)
    except RuntimeError as e:
        wanted = rf"shift: out-of-bounds read of 4 bytes at byte {size} of buffer 1, which has {size} bytes, " \
                 r"at program_source:3, threadgroup \(\d+, 0, 0\), thread \(\d+, 0, 0\), seed \d+"
        assert re.search(wanted, str(e)), str(e)
    else:
        raise AssertionError(f"{n} threads read {n + 1} of {size // 4} elements, without an error")


for n in (1, 100, 257):
    x = torch.randn(n).to("mpsx")
    if n > 1:
        runs(x, n - 1)
    fails(x, n, 4 * n)

# A view may access its whole storage.
x = torch.randn(100).to("mpsx")
runs(x[10:60], 50)
fails(x[50:], 50, 400)
runs(x[60:], 39)

# Each of many small tensors has its own bounds.
many = [torch.randn(3).to("mpsx") for _ in range(50)]
for t in many[::7]:
    fails(t, 3, 12)

# Test results that the CPU computed, CPU tensors that the device shares, and resized tensors.
a = torch.randn(16, 8).to("mpsx")
with mpsx.fallback.using_mode("silent"):
    q = torch.linalg.qr(a.cpu().to("mpsx"))[0].t().contiguous()
fails(q, q.numel(), 4 * q.numel())
with mpsx.fallback.using_mode("silent"):
    w = torch.linalg.svdvals(a)
runs(w, 7)
fails(w, 8, 32)
r = torch.empty(0, device="mpsx")
torch.add(x, x, out=r)
runs(r, 99)
fails(r, 100, 400)
r.resize_(200)
r.zero_()
runs(r, 199)
fails(r, 200, 800)

# Test out-of-bounds writes, including distant ones. The driver keeps working.
for at in (300, 301, 1000, 50000, 2**30):
    try:
        lib.store(out, at, threads=32, arg_casts={1: "uint32"})
    except RuntimeError as e:
        wanted = f"store: out-of-bounds write of 4 bytes at byte {4 * at} of buffer 0, which has 1200 bytes"
        if at == 2**30:  # the message may name another buffer that is nearer
            wanted = "store: out-of-bounds write of 4 bytes at byte "
        assert wanted in str(e), str(e)
    else:
        raise AssertionError(f"a write at {at} was not noticed")
assert torch.equal((x + x).cpu(), x.cpu() * 2)
assert torch.allclose(torch.softmax(a, 1).cpu(), torch.softmax(a.cpu(), 1))
print("done")
"""


def test_storage_sizes_are_exact(simt_library):
    environment = dict(os.environ, MPSX_DRIVER="simt")
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False,
                         timeout=600)
    assert run.returncode == 0 and run.stdout.strip() == "done", run.stderr[-3000:]
