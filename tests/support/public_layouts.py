"""Calls of public functions with sparse and quantized tensors. public_calls.py adds them to its table."""

from __future__ import annotations

import torch
from public_inputs import Call, Inputs


def coo(m: Inputs) -> torch.Tensor:
    return m.x(3, 4).relu().to_sparse()


def csr(m: Inputs) -> torch.Tensor:
    return m.x(3, 4).relu().to_sparse_csr()


def csc(m: Inputs) -> torch.Tensor:
    return m.x(3, 4).relu().to_sparse_csc()


def quantized(m: Inputs, *shape: int) -> torch.Tensor:
    return torch.quantize_per_tensor(m.x(*(shape or (3, 4))).float(), 0.1, 10, torch.quint8)


def per_channel(m: Inputs) -> torch.Tensor:
    return torch.quantize_per_channel(m.x(3, 4).float(), m.t([0.1, 0.2, 0.3]), m.t([0, 1, 2]), 0, torch.qint8)


def compressed(m: Inputs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return m.t([0, 2, 3]), m.t([0, 1, 1]), m.x(3)


def blocks(m: Inputs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return m.t([0, 1, 2]), m.t([0, 1]), m.x(2, 2, 2)


CALLS: dict[str, Call] = dict(
    ccol_indices_copy=lambda m: torch.ccol_indices_copy(csc(m)),
    col_indices_copy=lambda m: torch.col_indices_copy(csr(m)),
    crow_indices_copy=lambda m: torch.crow_indices_copy(csr(m)),
    row_indices_copy=lambda m: torch.row_indices_copy(csc(m)),
    resize_as_sparse_=lambda m: torch.resize_as_sparse_(torch.zeros_like(coo(m)), coo(m)).shape,
    sparse_coo_tensor=lambda m: torch.sparse_coo_tensor(m.t([[0, 2], [1, 1]]), m.x(2), (3, 2), device=m.device),
    sparse_csr_tensor=lambda m: torch.sparse_csr_tensor(*compressed(m), (2, 2), device=m.device),
    sparse_csc_tensor=lambda m: torch.sparse_csc_tensor(*compressed(m), (2, 2), device=m.device),
    sparse_bsr_tensor=lambda m: torch.sparse_bsr_tensor(*blocks(m), (4, 4), device=m.device),
    sparse_bsc_tensor=lambda m: torch.sparse_bsc_tensor(*blocks(m), (4, 4), device=m.device),
    sparse_compressed_tensor=lambda m: torch.sparse_compressed_tensor(
        *compressed(m), (2, 2), layout=torch.sparse_csr, device=m.device),
    quantize_per_tensor=lambda m: (quantized(m), torch.quantize_per_tensor(
        m.x(3).float(), m.t(0.1), m.t(2), torch.quint8)),
    quantize_per_channel=per_channel,
    quantize_per_tensor_dynamic=lambda m: torch.quantize_per_tensor_dynamic(m.x(3, 4).float(), torch.qint8, False),
    quantized_batch_norm=lambda m: torch.quantized_batch_norm(
        quantized(m, 2, 3, 4, 4), m.unit(3).float(), m.unit(3).float(), m.unit(3).float(), m.unit(3).float(), 1e-5, 0.1,
        2),
    quantized_max_pool1d=lambda m: torch.quantized_max_pool1d(quantized(m, 2, 3, 8), 2),
    quantized_max_pool2d=lambda m: torch.quantized_max_pool2d(quantized(m, 2, 3, 8, 8), [2, 2]),
    quantized_max_pool3d=lambda m: torch.quantized_max_pool3d(quantized(m, 1, 3, 8, 8, 8), [2, 2, 2]),
    int_repr=lambda m: torch.int_repr(quantized(m)),
    q_scale=lambda m: torch.q_scale(quantized(m)),
    q_zero_point=lambda m: torch.q_zero_point(quantized(m)),
    q_per_channel_axis=lambda m: torch.q_per_channel_axis(per_channel(m)),
    q_per_channel_scales=lambda m: torch.q_per_channel_scales(per_channel(m)).tolist(),
    q_per_channel_zero_points=lambda m: torch.q_per_channel_zero_points(per_channel(m)).tolist(),
    dequantize_quantized=lambda m: torch.dequantize(per_channel(m)),
)  # fmt: skip
CALLS |= {
    f"Tensor.{name}": call
    for name, call in dict(
        ccol_indices=lambda m: csc(m).ccol_indices(),
        col_indices=lambda m: csr(m).col_indices(),
        crow_indices=lambda m: csr(m).crow_indices(),
        row_indices=lambda m: csc(m).row_indices(),
        coalesce=lambda m: torch.sparse_coo_tensor(m.t([[0, 0], [1, 1]]), m.x(2), (3, 2)).coalesce(),
        is_coalesced=lambda m: coo(m).is_coalesced(),
        indices=lambda m: coo(m).indices(),
        values=lambda m: (coo(m).values(), csr(m).values()),
        dense_dim=lambda m: coo(m).dense_dim(),
        sparse_dim=lambda m: coo(m).sparse_dim(),
        dequantize=lambda m: quantized(m).dequantize(),
        int_repr=lambda m: per_channel(m).int_repr(),
        q_scale=lambda m: quantized(m).q_scale(),
        q_zero_point=lambda m: quantized(m).q_zero_point(),
        q_per_channel_axis=lambda m: per_channel(m).q_per_channel_axis(),
        q_per_channel_scales=lambda m: per_channel(m).q_per_channel_scales().tolist(),
        q_per_channel_zero_points=lambda m: per_channel(m).q_per_channel_zero_points().tolist(),
        qscheme=lambda m: (quantized(m).qscheme(), per_channel(m).qscheme()),
        resize_as_sparse_=lambda m: torch.zeros_like(coo(m)).resize_as_sparse_(coo(m)).shape,
        smm=lambda m: coo(m).smm(m.x(4, 2)).to_dense(),
        sspaddmm=lambda m: m.x(3, 2).to_sparse().sspaddmm(coo(m), m.x(4, 2)).to_dense(),
        sparse_mask=lambda m: (m.x(3, 4).sparse_mask(coo(m)), m.x(3, 4).sparse_mask(csr(m))),
        sparse_resize_=lambda m: coo(m).sparse_resize_((5, 6), 2, 0),
        sparse_resize_and_clear_=lambda m: coo(m).sparse_resize_and_clear_((5, 6), 1, 1),
        to_dense=lambda m: (coo(m).to_dense(), csr(m).to_dense(), csc(m).to_dense()),
        to_padded_tensor=lambda m: torch.nested.nested_tensor([m.x(2, 3), m.x(4, 3)]).to_padded_tensor(-1.0),
        to_sparse_bsc=lambda m: m.x(4, 6).to_sparse_bsc((2, 3)),
        to_sparse_bsr=lambda m: m.x(4, 6).to_sparse_bsr((2, 3)),
        to_sparse_coo=lambda m: m.x(4, 6).to_sparse_coo(),
        to_sparse_csc=lambda m: m.x(4, 6).to_sparse_csc(),
        to_sparse_csr=lambda m: m.x(4, 6).to_sparse_csr(),
    ).items()
}
