"""Test calls for every public function in torch, torch.special, torch.fft and torch.nn.functional without an OpInfo.

test_public_calls.py compares each call's result with the CPU's, and checks that every function has a call.
public_methods.py contains the calls of methods.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from public_inputs import Call, Inputs

CALLS: dict[str, Call] = {}


def add(**calls: Call) -> None:
    CALLS.update(calls)


def nn(**calls: Call) -> None:
    CALLS.update({f"nn.functional.{name}": call for name, call in calls.items()})


UNARY = """abs_ acos_ acosh_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_ atan_ atanh_
    ceil_ celu celu_ conj_physical_ cos_ cosh_ deg2rad_ detach_ erf_ erfc_ exp2_ exp_ expm1_ fix_ floor_ frac_
    hardshrink i0_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu relu_ round_
    rrelu rrelu_ rsqrt_ selu selu_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ detach detach_copy
    is_complex is_conj is_distributed is_floating_point is_inference is_neg is_signed numel"""
DROPOUT = """alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout feature_alpha_dropout_ feature_dropout
    feature_dropout_"""


def unary(f: Callable[..., object]) -> Call:
    return lambda m: f(m.unit(3, 5))


def dropout(f: Callable[..., object]) -> Call:
    return lambda m: (f(m.x(3, 5, 2), 0.0, True), f(m.x(3, 5, 2), 0.5, False))


def window(f: Callable[..., object]) -> Call:
    return lambda m: [
        f(n, periodic=p, dtype=m.dtype, device=m.device) for n in (0, 1, 2, 12, 13) for p in (True, False)
    ]


CALLS.update({name: unary(getattr(torch, name)) for name in UNARY.split()})
CALLS.update({name: dropout(getattr(torch, name)) for name in DROPOUT.split()})
for _name in ("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"):
    CALLS[_name] = window(getattr(torch, _name))
add(
    kaiser_window_beta=lambda m: torch.kaiser_window(12, False, 8.0, dtype=m.dtype, device=m.device),
    kaiser_window_out=lambda m: torch.ops.aten.kaiser_window.beta_out(9, True, 5.0, out=m.x(9)),
    hamming_window_alpha=lambda m: torch.hamming_window(9, True, 0.4, 0.6, dtype=m.dtype, device=m.device),
    adaptive_avg_pool1d=lambda m: torch.adaptive_avg_pool1d(m.leaf(2, 3, 8), 3),
    adaptive_max_pool1d=lambda m: torch.adaptive_max_pool1d(m.leaf(2, 3, 8), 3),
    addmv_=lambda m: torch.addmv_(m.x(3), m.x(3, 4), m.x(4), beta=0.5, alpha=2),
    affine_grid_generator=lambda m: torch.affine_grid_generator(m.leaf(2, 2, 3), [2, 3, 4, 5], False),
    as_strided_=lambda m: torch.as_strided_(m.t([1.0, 2, 3, 4]), (2, 2), (1, 2)),
    as_tensor=lambda m: torch.as_tensor([1.0, 2.0], device=m.device),
    asarray=lambda m: torch.asarray([[1.0], [2.0]], dtype=m.dtype, device=m.device),
    avg_pool1d=lambda m: torch.avg_pool1d(m.leaf(2, 3, 8), 3, 2, 1),
    batch_norm=lambda m: torch.batch_norm(m.leaf(2, 3, 4), m.leaf(3), m.leaf(3), m.x(3), m.unit(3), True, 0.1, 1e-5,
                                          False),
    bilinear=lambda m: torch.bilinear(m.leaf(2, 3), m.leaf(2, 4), m.leaf(5, 3, 4), m.leaf(5)),
    binary_cross_entropy_with_logits=lambda m: torch.binary_cross_entropy_with_logits(
        m.leaf(3, 4), m.unit(3, 4), m.unit(3, 4), m.unit(4)),
    binomial=lambda m: torch.binomial(torch.full_like(m.x(3), 7.0), m.t([0.0, 1.0, 1.0]).to(m.dtype)),
    chain_matmul=lambda m: torch.chain_matmul(m.leaf(2, 3), m.leaf(3, 4), m.leaf(4, 5)),
    channel_shuffle=lambda m: torch.channel_shuffle(m.leaf(1, 4, 2, 2), 2),
    choose_qparams_optimized=lambda m: torch.choose_qparams_optimized(m.x(20), 20, 200, 0.16, 8),
    clamp_=lambda m: torch.clamp_(m.x(3, 4), -0.5, 0.5),
    clamp_max_=lambda m: torch.clamp_max_(m.x(3, 4), 0.5),
    clamp_min_=lambda m: torch.clamp_min_(m.x(3, 4), m.x(4)),
    clip_=lambda m: torch.clip_(m.x(3, 4), m.x(4), m.x(3, 1)),
    cond=lambda m: torch.cond(m.t(True), lambda x: x.sin(), lambda x: x.cos(), (m.x(3),)),
    conv_tbc=lambda m: torch.conv_tbc(m.leaf(5, 2, 3), m.leaf(2, 3, 4), m.leaf(4), 1),
    convolution=lambda m: torch.convolution(m.leaf(1, 2, 5, 5), m.leaf(4, 1, 3, 3), m.leaf(4), [1, 2], [1, 0], [1, 1],
                                            False, [0, 0], 2),
    convolution_transposed=lambda m: torch.convolution(m.leaf(1, 2, 5), m.leaf(2, 3, 3), None, [2], [1], [1], True, [1],
                                                       1),
    cosine_embedding_loss=lambda m: torch.cosine_embedding_loss(m.leaf(4, 3), m.leaf(4, 3), m.t([1, -1, 1, -1]), 0.2),
    cosine_similarity=lambda m: torch.cosine_similarity(m.leaf(4, 3), m.leaf(4, 3), 1),
    ctc_loss=lambda m: torch.ctc_loss(m.leaf(6, 2, 4).log_softmax(-1), m.index(3, 2, 3) + 1, m.t([6, 5]), m.t([3, 2])),
    dequantize=lambda m: (torch.dequantize(quantized(m)), torch.dequantize([quantized(m), quantized(m)])),
    dsmm=lambda m: torch.dsmm(m.x(3, 4), m.x(4, 2)),
    embedding=lambda m: torch.embedding(m.leaf(5, 3), m.index(5, 2, 4), 1),
    embedding_bag=lambda m: torch.embedding_bag(m.leaf(5, 3), m.index(5, 6), m.t([0, 2, 2]), False, 1)[0],
    embedding_renorm_=lambda m: torch.embedding_renorm_(m.x(5, 3), m.index(5, 4), 0.5, 2.0),
    empty_quantized=lambda m: torch.empty_quantized([2, 3], quantized(m)).shape,
    fake_quantize_per_channel_affine=lambda m: torch.fake_quantize_per_channel_affine(
        m.leaf(3, 4), m.unit(3), m.index(3, 3, dtype=torch.int32), 0, 0, 255),
    fake_quantize_per_tensor_affine=lambda m: (
        torch.fake_quantize_per_tensor_affine(m.leaf(3, 4), 0.1, 2, 0, 255),
        torch.fake_quantize_per_tensor_affine(m.leaf(3, 4), m.unit(1), m.t([2], torch.int32), 0, 255)),
    fill_=lambda m: (torch.fill_(m.x(3), 2.5), torch.fill_(m.x(3), m.t(1.5))),
    frobenius_norm=lambda m: (torch.frobenius_norm(m.leaf(3, 4), 1), torch.frobenius_norm(m.x(3, 4), [0, 1], True)),
    from_dlpack=lambda m: torch.from_dlpack(m.x(3)),
    fused_moving_avg_obs_fake_quant=lambda m: torch.fused_moving_avg_obs_fake_quant(
        m.leaf(3, 4), m.t([1]), m.t([1]), m.t([-1.0]), m.t([1.0]), m.t([0.1]), m.t([0], torch.int32), 0.1, 0, 255, 0),
    gcd_=lambda m: torch.gcd_(m.index(40, 9), m.index(40, 9)),
    grid_sampler=lambda m: torch.grid_sampler(m.leaf(1, 2, 4, 4), m.leaf(1, 3, 3, 2), 0, 0, False),
    gru=lambda m: torch.gru(m.leaf(4, 2, 3), m.leaf(1, 2, 5), gates(m, 3), True, 1, 0.0, True, False, False),
    gru_packed=lambda m: torch.gru(*packed(m), m.leaf(1, 3, 5), gates(m, 3), True, 1, 0.0, True, False),
    gru_cell=lambda m: torch.gru_cell(m.leaf(2, 3), m.leaf(2, 5), *gates(m, 3)),
    hinge_embedding_loss=lambda m: torch.hinge_embedding_loss(m.leaf(4), m.t([1, -1, 1, -1]), 1.0),
    hsmm=lambda m: torch.hsmm(m.x(3, 4).relu().to_sparse(), m.x(4, 2)).to_dense(),
    hspmm=lambda m: torch.hspmm(m.x(3, 4).relu().to_sparse(), m.x(4, 2)).to_dense(),
    index_put_=lambda m: torch.index_put_(m.x(5, 2), [m.t([1, 3])], m.x(2)),
    instance_norm=lambda m: torch.instance_norm(m.leaf(2, 3, 4), m.leaf(3), m.leaf(3), m.x(3), m.unit(3), True, 0.1,
                                                1e-5, False),
    is_nonzero=lambda m: (torch.is_nonzero(m.t(3.0)), torch.is_nonzero(m.t([0]))),
    is_same_size=lambda m: (torch.is_same_size(m.x(2, 3), m.x(2, 3)), torch.is_same_size(m.x(2, 3), m.x(3))),
    is_storage=lambda m: torch.is_storage(m.x(3).untyped_storage()),
    is_tensor=lambda m: torch.is_tensor(m.x(3)),
    kl_div=lambda m: [torch.kl_div(m.leaf(3, 4), m.unit(3, 4), r, log_target=log) for r in (0, 1, 2)
                      for log in (False, True)],
    lcm_=lambda m: torch.lcm_(m.index(40, 9), m.index(40, 9)),
    ldexp_=lambda m: torch.ldexp_(m.x(3), m.index(4, 3)),
    lobpcg=lambda m: torch.lobpcg(torch.diag(m.t([1.0, 2, 3, 4, 5, 6, 7, 8, 9])), 1, X=m.x(9, 1).abs() + 0.1)[0],
    lstm=lambda m: torch.lstm(m.leaf(4, 2, 3), [m.leaf(1, 2, 5), m.leaf(1, 2, 5)], gates(m, 4), True, 1, 0.0, True,
                              False, False),
    lstm_packed=lambda m: torch.lstm(*packed(m), [m.leaf(1, 3, 5), m.leaf(1, 3, 5)], gates(m, 4), True, 1, 0.0, True,
                                     False),
    lstm_cell=lambda m: torch.lstm_cell(m.leaf(2, 3), [m.leaf(2, 5), m.leaf(2, 5)], *gates(m, 4)),
    margin_ranking_loss=lambda m: torch.margin_ranking_loss(m.leaf(4), m.leaf(4), m.t([1, -1, 1, -1]), 0.1),
    max_pool1d=lambda m: torch.max_pool1d(m.leaf(2, 3, 8), 3, 2, 1),
    max_pool1d_no_gradient=lambda m: torch.max_pool1d(m.x(2, 3, 8), 3, 2, 1, 1, True),
    max_pool1d_with_indices=lambda m: torch.max_pool1d_with_indices(m.leaf(2, 3, 8), 3, 2, 1),
    max_pool2d=lambda m: torch.max_pool2d(m.leaf(2, 3, 6, 6), 3, 2, 1),
    max_pool3d=lambda m: torch.max_pool3d(m.leaf(1, 2, 4, 4, 4), 2),
    native_channel_shuffle=lambda m: torch.native_channel_shuffle(m.x(1, 4, 2, 2), 2),
    native_dropout=lambda m: (torch.native_dropout(m.leaf(3, 4), 0.0, True), torch.native_dropout(m.x(3), 0.5, False)),
    native_norm=lambda m: torch.native_norm(m.x(3, 4).relu().to_sparse(), 2),
    norm_except_dim=lambda m: torch.norm_except_dim(m.leaf(3, 4, 2), 2, 1),
    nuclear_norm=lambda m: (torch.nuclear_norm(m.leaf(3, 4)), torch.nuclear_norm(m.x(2, 3, 4), [1, 2], True)),
    pairwise_distance=lambda m: torch.pairwise_distance(m.leaf(4, 3), m.leaf(4, 3), 2.0, 1e-6, True),
    pdist=lambda m: torch.pdist(m.leaf(4, 3)),
    pixel_shuffle=lambda m: torch.pixel_shuffle(m.leaf(1, 8, 2, 3), 2),
    pixel_unshuffle=lambda m: torch.pixel_unshuffle(m.leaf(1, 2, 4, 6), 2),
    poisson=lambda m: torch.poisson(torch.zeros_like(m.x(3, 4))),
    poisson_nll_loss=lambda m: [torch.poisson_nll_loss(m.leaf(3, 4), m.unit(3, 4), log, True, 1e-8, 1)
                                for log in (True, False)],
    prelu=lambda m: torch.prelu(m.leaf(2, 3, 4), m.leaf(3)),
    rand=lambda m: torch.rand(3, 4, dtype=m.dtype, device=m.device).shape,
    randperm=lambda m: torch.randperm(9, device=m.device).sort()[0],
    range=lambda m: torch.range(0, 5, 2, dtype=m.dtype, device=m.device),
    result_type=lambda m: (torch.result_type(m.x(2), 1.5), torch.result_type(m.index(3, 2), m.t(1.5))),
    rnn_relu=lambda m: torch.rnn_relu(m.leaf(4, 2, 3), m.leaf(1, 2, 5), gates(m, 1), True, 1, 0.0, True, False, False),
    rnn_relu_cell=lambda m: torch.rnn_relu_cell(m.leaf(2, 3), m.leaf(2, 5), *gates(m, 1)),
    rnn_tanh=lambda m: torch.rnn_tanh(m.leaf(4, 2, 3), m.leaf(1, 2, 5), gates(m, 1), True, 1, 0.0, True, False, False),
    rnn_tanh_cell=lambda m: torch.rnn_tanh_cell(m.leaf(2, 3), m.leaf(2, 5), *gates(m, 1)),
    saddmm=lambda m: torch.saddmm(m.x(3, 2).to_sparse(), m.x(3, 4).relu().to_sparse(), m.x(4, 2)),
    segment_reduce=lambda m: [torch.segment_reduce(m.leaf(6, 2), r, lengths=m.t([2, 0, 4]), unsafe=False, initial=1.0)
                              for r in ("sum", "mean", "max", "min", "prod")],
    select_copy=lambda m: torch.select_copy(m.leaf(3, 4), 1, 2),
    slice_copy=lambda m: torch.slice_copy(m.leaf(3, 6), 1, 0, 5, 2),
    slice_inverse=lambda m: torch.slice_inverse(m.x(10)[2:8], m.x(10), 0, 2, 8),
    slogdet=lambda m: torch.slogdet(m.leaf(3, 3)),
    smm=lambda m: torch.smm(m.x(3, 4).relu().to_sparse(), m.x(4, 2)).to_dense(),
    split_copy=lambda m: torch.split_copy(m.leaf(5, 2), 2),
    spmm=lambda m: torch.spmm(m.x(3, 4).relu().to_sparse(), m.x(4, 2)),
    sspaddmm=lambda m: torch.sspaddmm(m.x(3, 2).to_sparse(), m.x(3, 4).relu().to_sparse(), m.x(4, 2)).to_dense(),
    tensor=lambda m: torch.tensor([[1.0, 2.0]], dtype=m.dtype, device=m.device),
    threshold=lambda m: torch.threshold(m.leaf(3, 4), 0.1, 7.0),
    threshold_=lambda m: torch.threshold_(m.x(3, 4), 0.1, 7.0),
    triplet_margin_loss=lambda m: torch.triplet_margin_loss(m.leaf(4, 3), m.leaf(4, 3), m.leaf(4, 3), 1.0, 2.0, 1e-6,
                                                            True),
    unsafe_split_with_sizes=lambda m: torch.unsafe_split_with_sizes(m.leaf(5, 2), [2, 3]),
    vander=lambda m: (torch.vander(m.x(4)), torch.vander(m.x(4), 3, True)),
    view_as_complex_copy=lambda m: torch.view_as_complex_copy(m.x(3, 2)),
    view_as_real_copy=lambda m: torch.view_as_real_copy(torch.complex(m.leaf(3), m.leaf(3))),
    vmap=lambda m: torch.vmap(torch.dot)(m.leaf(3, 4), m.leaf(3, 4)),
    while_loop=lambda m: torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (m.t(0), m.x(3))),
    xlogy_=lambda m: torch.xlogy_(m.unit(3), m.unit(3)),
)  # fmt: skip
nn(
    affine_grid=lambda m: F.affine_grid(m.leaf(2, 3, 4), [2, 1, 2, 3, 4], True),
    celu_=lambda m: F.celu_(m.x(3), 1.5),
    conv_tbc=lambda m: F.conv_tbc(m.leaf(5, 2, 3), m.leaf(2, 3, 4), m.leaf(4)),
    dropout1d=lambda m: (F.dropout1d(m.leaf(2, 3, 4), 0.0), F.dropout1d(m.x(2, 3, 4), 0.5, False)),
    elu_=lambda m: F.elu_(m.x(3), 1.5),
    fold=lambda m: F.fold(m.leaf(1, 12, 9), (4, 4), (2, 2)),
    grouped_mm=lambda m: F.grouped_mm(m.x(16, 16).bfloat16(), m.x(2, 16, 16).bfloat16(), offs=m.t(
        [8, 16], torch.int32)),
    gumbel_softmax=lambda m: F.gumbel_softmax(m.x(3, 4), hard=True).sum(-1),
    hardtanh_=lambda m: F.hardtanh_(m.x(3, 4), -0.5, 0.25),
    leaky_relu_=lambda m: F.leaky_relu_(m.x(3, 4), 0.2),
    lp_pool1d=lambda m: F.lp_pool1d(m.leaf(2, 3, 8), 2, 3, 2),
    lp_pool2d=lambda m: F.lp_pool2d(m.leaf(2, 3, 6, 6), 3, 2),
    lp_pool3d=lambda m: F.lp_pool3d(m.leaf(1, 2, 4, 4, 4), 2, 2),
    native_channel_shuffle=lambda m: F.native_channel_shuffle(m.x(1, 4, 2, 2), 2),
    relu_=lambda m: F.relu_(m.x(3, 4)),
    rrelu_=lambda m: F.rrelu_(m.x(3, 4)),
    selu_=lambda m: F.selu_(m.x(3, 4)),
    threshold_=lambda m: F.threshold_(m.x(3, 4), 0.1, 7.0),
    upsample=lambda m: F.upsample(m.leaf(1, 2, 3, 3), scale_factor=2, mode="bilinear"),
    adaptive_max_pool1d_with_indices=lambda m: F.adaptive_max_pool1d_with_indices(m.leaf(2, 3, 8), 3),
    adaptive_max_pool2d_with_indices=lambda m: F.adaptive_max_pool2d_with_indices(m.leaf(2, 3, 8, 7), 3),
    adaptive_max_pool3d_with_indices=lambda m: F.adaptive_max_pool3d_with_indices(m.leaf(1, 2, 5, 6, 4), 3),
    fractional_max_pool2d_with_indices=lambda m: F.fractional_max_pool2d_with_indices(
        m.leaf(1, 2, 6, 6), 2, 3, _random_samples=m.unit(1, 2, 2)),
    fractional_max_pool3d_with_indices=lambda m: F.fractional_max_pool3d_with_indices(
        m.leaf(1, 2, 6, 6, 6), 2, 3, _random_samples=m.unit(1, 2, 3)),
    max_pool1d_with_indices=lambda m: F.max_pool1d_with_indices(m.leaf(2, 3, 8), 3, 2, 1),
    max_pool2d_with_indices=lambda m: F.max_pool2d_with_indices(m.leaf(2, 3, 6, 6), 3, 2, 1),
    max_pool3d_with_indices=lambda m: F.max_pool3d_with_indices(m.leaf(1, 2, 4, 4, 4), 2),
)  # fmt: skip
CALLS |= {
    "fft.fftfreq": lambda m: torch.fft.fftfreq(5, 0.5, dtype=m.dtype, device=m.device),
    "fft.rfftfreq": lambda m: torch.fft.rfftfreq(6, 0.5, dtype=m.dtype, device=m.device),
    "special.gammainc": lambda m: torch.special.gammainc(m.unit(3, 4) * 4, m.unit(3, 4) * 4),
    "special.gammaincc": lambda m: torch.special.gammaincc(m.unit(3, 4) * 4, m.unit(3, 4) * 4),
}


def gates(m: Inputs, count: int) -> list[torch.Tensor]:
    """Return the weights and biases of a recurrent layer with 3 inputs, 5 hidden units and `count` gates."""
    return [m.leaf(5 * count, 3), m.leaf(5 * count, 5), m.leaf(5 * count), m.leaf(5 * count)]


def packed(m: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a packed sequence with lengths 3, 2 and 1."""
    return m.leaf(6, 3), torch.tensor([3, 2, 1])


def quantized(m: Inputs) -> torch.Tensor:
    return torch.quantize_per_tensor(m.x(3, 4).float(), 0.1, 10, torch.quint8)
