import numpy as np
import torch
from cases.common import Run, structure

F, H = np.float32, np.float16


def quantized(run: Run):
    d = run.rng.standard_normal((6, 4)).astype(H)
    q = run.rng.integers(0, 256, (6, 4, 16)).astype(np.uint8)
    blocks = np.zeros((6, 4), [("d", H), ("q", "u1", 16)])
    blocks["d"], blocks["q"] = d, q
    rows = np.array([5, 0, 3], np.int32)
    arguments = structure("i4 i4 u8 f4 x4", 128, 6, 4 * 18, 1)
    (got,) = run(run.lib.kernel_get_rows_q4_0, arguments, blocks, rows, np.zeros((3, 128), F), outputs=[3], threads=96,
                 group_size=32)  # fmt: skip
    values = np.concatenate([q & 15, q >> 4], -1).astype(F) - 8
    run.close(got, (values * d.astype(F)[..., None])[rows].reshape(3, 128), rtol=2e-3, atol=2e-3)


def k_quants(run: Run):
    n, rows = 768, 5
    b = np.zeros((rows, n // 256), [("dm", H, 2), ("s", "u1", 12), ("q", "u1", 128)])
    b["dm"] = run.rng.random(b["dm"].shape)
    b["s"], b["q"] = run.rng.integers(0, 256, b["s"].shape), run.rng.integers(0, 256, b["q"].shape)
    y = run.rng.standard_normal(n).astype(F)
    s = b["s"].astype(int)
    scales = np.concatenate([s[..., :4] & 63, (s[..., 8:] & 15) | (s[..., :4] & 0xC0) >> 2], -1)
    mins = np.concatenate([s[..., 4:8] & 63, s[..., 8:] >> 4 | (s[..., 4:8] & 0xC0) >> 2], -1)
    q = b["q"].reshape(rows, n // 256, 4, 1, 32)
    values = np.concatenate([q & 15, q >> 4], 3).reshape(rows, n // 256, 8, 32).astype(float)
    dm = b["dm"].astype(float)
    w = values * (dm[..., :1] * scales)[..., None] - (dm[..., 1:] * mins)[..., None]
    arguments = structure("i4 i4 u8 f4 x4", n, rows, n // 256 * 144, 0.5)
    (got,) = run(run.lib.kernel_mul_mv_q4_K_f32, arguments, b, y, np.zeros(rows, F), outputs=[3], threads=rows * 64,
                 group_size=64, threadgroup_memory={0: 128})  # fmt: skip
    run.close(got, 0.5 * w.reshape(rows, n) @ y, rtol=1e-3, atol=0.05)


def small_types(run: Run):
    q, absmax = run.rng.integers(0, 256, 160).astype(np.uint8), run.rng.random(5).astype(F)
    (got,) = run(run.lib.dequant_nf4_half, q, absmax, np.zeros(320, H), np.array([320], np.uint32), outputs=[2],
                 threads=200)  # fmt: skip
    codes = np.stack([q >> 4, q & 15], 1).ravel()
    table = np.array([-1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0.0, 0.0795803,
                      0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0])  # fmt: skip
    run.close(got, table[codes] * np.repeat(absmax, 64), rtol=1e-3, atol=1e-4)
    w = run.rng.integers(-1, 2, (7, 256))
    x = run.rng.integers(-128, 128, 256).astype(np.int8)
    packed = ((w + 1).reshape(7, 16, 16).astype(np.uint32) << (2 * np.arange(16, dtype=np.uint32))).sum(-1)
    (got,) = run(run.lib.bitnet_gemv, packed.astype(np.uint32), x, np.zeros(7, F), np.array([256, 7], np.uint32), 0.25,
                 outputs=[2], threads=7 * 32, group_size=32)  # fmt: skip
    assert (got == 0.25 * (w @ x.astype(int))).all()


def attention(run: Run):
    for kernel, n, d, dtype, tolerance in ((run.lib.flash_attention_float_32, 64, 32, torch.float32, 1e-5),
                                           (run.lib.flash_attention_half_64, 96, 64, torch.float16, 5e-3)):
        q, k, v = (torch.from_numpy(run.rng.standard_normal((3, n, d))).to(dtype) for _ in range(3))
        for causal in (False, True):
            out = torch.zeros_like(q, device="mpsx")
            kernel(*(x.to("mpsx") for x in (q, k, v)), out, n, d**-0.5, torch.tensor([causal]).to("mpsx"),
                   arg_casts={4: "int32"}, threads=(32 * (n // 8), 3), group_size=(32, 1))  # fmt: skip
            want = torch.nn.functional.scaled_dot_product_attention(*(x.float() for x in (q, k, v)), is_causal=causal)
            run.close(out.cpu().float(), want, rtol=tolerance, atol=tolerance)


def rows(run: Run):
    x = run.rng.standard_normal((5, 2, 16)).astype(H)
    position = np.array([0, 1, 5, 100, 7], np.int32)
    (got,) = run(run.lib.rope, x, position, np.array([5, 2, 16, 0], np.int32), 10000.0, outputs=[0], threads=(8, 2, 5),
                 group_size=(8, 1, 1))  # fmt: skip
    angle = position[:, None, None] * 10000.0 ** (-np.arange(8) / 8)
    a, b = x[..., :8].astype(F), x[..., 8:].astype(F)
    want = np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1)
    run.close(got, want, rtol=2e-3, atol=2e-3)
    for name, dtype in (("float32", torch.float32), ("float16", torch.float16), ("bfloat16", torch.bfloat16)):
        x, w = torch.randn(4, 1001).to(dtype), torch.randn(1001).to(dtype)
        out = torch.zeros_like(x, device="mpsx")
        getattr(run.lib, f"rms_{name}")(x.to("mpsx"), w.to("mpsx"), out, 1e-5, 1001, arg_casts={4: "uint32"},
                                        threads=4 * 256, group_size=256)  # fmt: skip
        torch.testing.assert_close(out.cpu(), torch.nn.functional.rms_norm(x, (1001,), w, 1e-5))
    x = run.rng.standard_normal((3, 500)).astype(F)
    for group in (32, 256):
        (got,) = run(run.lib.kernel_soft_max, x, np.zeros_like(x), np.array([500], np.uint32), outputs=[1],
                     threads=3 * group, group_size=group, threadgroup_memory={0: 128})  # fmt: skip
        run.close(got, torch.from_numpy(x).softmax(1))
    x = torch.randn(6, 300).bfloat16()
    x[2] = 1
    index = torch.zeros(6, dtype=torch.int64, device="mpsx")
    run.lib.argmax_rows(x.to("mpsx"), index, 300, arg_casts={2: "uint32"}, threads=6 * 32, group_size=32)
    assert torch.equal(x[torch.arange(6), index.cpu()], x.max(1).values)
    assert index[2] == 0


def functors(run: Run):
    for name, dtype in (("sub", torch.float32), ("sub", torch.float16), ("lerp", torch.bfloat16)):
        a, b = torch.randn(4, 5, 6).to(dtype).transpose(0, 2), torch.randn(6, 1, 4).to(dtype).expand(6, 5, 4)
        out = torch.zeros(6, 5, 4, dtype=dtype, device="mpsx")
        size = dtype.itemsize
        layouts = (a.shape, out.stride(), a.stride(), b.stride())
        layout = [[n * size if k else n for n in reversed(x)] for k, x in enumerate(layouts)]
        tag = {torch.float32: "float", torch.float16: "half", torch.bfloat16: "bfloat"}[dtype]
        there = torch.zeros(120, dtype=dtype, device="mpsx").as_strided((6, 5, 4), a.stride())
        there.copy_(a)
        other = b[:, :1].contiguous().to("mpsx")
        getattr(run.lib, f"{name}_strided_{tag}")(
            out, there, other, 0.25, *(torch.tensor(x).to("mpsx") for x in layout), 3, arg_casts={8: "uint32"},
            threads=120)  # fmt: skip
        want = a - 0.25 * b if name == "sub" else torch.lerp(a.float(), b.float(), 0.25).to(dtype)
        torch.testing.assert_close(out.cpu(), want)
    x = run.rng.standard_normal((5, 300)).astype(F)
    (got,) = run(run.lib.layer_norm_looped_float, x, np.zeros_like(x), np.array([300], np.uint32), 1e-5, outputs=[1],
                 threads=5 * 128, group_size=128)  # fmt: skip
    run.close(got, torch.nn.functional.layer_norm(torch.from_numpy(x), (300,)), atol=1e-5)


CASES = [quantized, k_quants, small_types, attention, rows, functors]
