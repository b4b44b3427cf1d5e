"""Sparse tensors in training: gradients, optimizers, CSR tensors, and files."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from sparse_tensors import compare, coo

pytestmark = [
    pytest.mark.usefixtures("no_fallback"),
    pytest.mark.filterwarnings("ignore:Sparse (CSR|BSR|CSC|BSC|invariant)"),
]

GRADIENTS = {
    "to_dense": (lambda a: a.to_dense(), lambda: (coo(6, 7),)),
    "to_sparse": (lambda a: a.to_sparse() * 2, lambda: (coo(6, 7).to_dense(),)),
    "to_sparse_1": (lambda a: a.to_sparse(1), lambda: (coo(6, 7).to_dense(),)),
    "values": (lambda a: a.coalesce().values(), lambda: (coo(6, 7),)),
    "mm": (torch.sparse.mm, lambda: (coo(6, 7), torch.randn(7, 5))),
    "mm_coalesced": (torch.sparse.mm, lambda: (coo(6, 7, coalesced=True), torch.randn(7, 5))),
    "mm_sparse": (torch.sparse.mm, lambda: (coo(6, 7, coalesced=True), coo(7, 5, coalesced=True))),
    "addmm": (torch.sparse.addmm, lambda: (torch.randn(6, 5), coo(6, 7, coalesced=True), torch.randn(7, 5))),
    "mv": (torch.mv, lambda: (coo(6, 7, coalesced=True), torch.randn(7))),
    "bmm": (torch.bmm, lambda: (coo(3, 4, 5, sparse_dim=3, coalesced=True), torch.randn(3, 5, 2))),
    "add": (torch.add, lambda: (coo(6, 7, coalesced=True), coo(6, 7, coalesced=True))),
    "add_dense": (torch.add, lambda: (torch.randn(6, 7), coo(6, 7))),
    "mul": (torch.mul, lambda: (coo(6, 7, coalesced=True), coo(6, 7, nnz=30, coalesced=True))),
    "mul_uncoalesced": (torch.mul, lambda: (coo(6, 7), coo(6, 7, nnz=30))),
    "mul_dense": (torch.mul, lambda: (coo(6, 7, coalesced=True), torch.randn(6, 7))),
    "sum": (torch.sparse.sum, lambda: (coo(6, 7, 3),)),
    "sum_rows": (lambda a: torch.sparse.sum(a, (0, 2)), lambda: (coo(6, 7, 3),)),
    "sum_all_sparse": (lambda a: torch.sparse.sum(a, (0, 1)), lambda: (coo(6, 7, 3),)),
    "softmax": (lambda a: torch.sparse.softmax(a, 0), lambda: (coo(6, 7, 3, coalesced=True),)),
    "softmax_dense": (lambda a: torch.sparse.softmax(a, 2), lambda: (coo(6, 7, 3, coalesced=True),)),
    "log_softmax": (lambda a: torch.sparse.log_softmax(a, 1), lambda: (coo(6, 7, 3, coalesced=True),)),
    "mask": (lambda a, m: a.sparse_mask(m.detach()), lambda: (torch.randn(6, 7), coo(6, 7, coalesced=True))),
    "csr_mm": (torch.mm, lambda: (coo(6, 7).to_sparse_csr(), torch.randn(7, 3))),
    "csr_dense": (lambda a: a.to_dense(), lambda: (coo(6, 7).to_sparse_csr(),)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    function, arguments = GRADIENTS[name]
    args = arguments()
    results = []
    for device in ("cpu", "mpsx"):
        leaves = [t.detach().clone().to(device).requires_grad_() for t in args]
        out = function(*leaves)
        weights = torch.arange(1.0, out.numel() + 1, device=device).view(out.shape)
        total = (out.to_dense() if out.layout != torch.strided else out).mul(weights).sum()
        results.append(torch.autograd.grad(total, leaves, allow_unused=True))
    for want, got in zip(*results, strict=True):
        assert (want is None) == (got is None)
        if want is not None:
            assert want.layout == got.layout
            torch.testing.assert_close(got.cpu().to_dense(), want.to_dense())


def test_gradient_of_the_values() -> None:
    values = torch.randn(12, device="mpsx", requires_grad=True)
    indices = coo(6, 7)._indices().to("mpsx")
    torch.sparse_coo_tensor(indices, values, (6, 7)).coalesce().values().pow(2).sum().backward()
    reference = values.detach().cpu().requires_grad_()
    torch.sparse_coo_tensor(indices.cpu(), reference, (6, 7)).coalesce().values().pow(2).sum().backward()
    torch.testing.assert_close(values.grad.cpu(), reference.grad)


OPTIMIZERS = {
    "SparseAdam": lambda p: torch.optim.SparseAdam(p, lr=0.1),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_an_embedding(name: str) -> None:
    weights = []
    for device in ("cpu", "mpsx"):
        torch.manual_seed(0)
        layer = torch.nn.Embedding(20, 8, sparse=True).to(device)
        optimizer = OPTIMIZERS[name](list(layer.parameters()))
        for step in range(3):
            optimizer.zero_grad()
            layer(torch.tensor([1, 3, 3, 7 + step, 1], device=device)).pow(2).sum().backward()
            assert layer.weight.grad.is_sparse
            optimizer.step()
        weights.append(layer.weight.detach().cpu())
    torch.testing.assert_close(weights[1], weights[0])


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_copy_pickle_and_save(layout: str) -> None:
    x = coo(6, 7) if layout == "coo" else coo(6, 7).to_sparse_csr()
    on_mpsx = x.to("mpsx")
    for copy_of in (copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t)), saved):
        back = copy_of(on_mpsx)
        assert back.device.type == "mpsx"
        assert back.layout == on_mpsx.layout
        torch.testing.assert_close(back.cpu(), x)
    assert saved(on_mpsx, map_location="cpu").device.type == "cpu"
    assert saved(x, map_location="mpsx").device.type == "mpsx"
    text = "".join(repr(on_mpsx).split()).replace(",device='mpsx:0'", "")
    assert text == "".join(repr(x).split())


def saved(t: torch.Tensor, map_location: str | None = None) -> torch.Tensor:
    """Save a tensor to a buffer, and load it again."""
    file = io.BytesIO()
    torch.save(t, file)
    file.seek(0)
    return torch.load(file, map_location=map_location)


def test_data_loader() -> None:
    rows = list(coo(8, 7).to_dense())
    loader = torch.utils.data.DataLoader(
        rows, batch_size=4, collate_fn=lambda batch: torch.stack([row.to_sparse() for row in batch])
    )
    got = torch.cat([batch.to("mpsx") for batch in loader])
    assert torch.equal(got.to_dense().cpu(), torch.stack(rows))


def test_csr() -> None:
    x = coo(6, 7, coalesced=True)
    csr, dense = x.to_sparse_csr(), x.to_dense()
    for function in (
        torch.Tensor.to_dense,
        torch.Tensor.to_sparse,
        torch.Tensor.to_sparse_csc,
        torch.abs,
        torch.clone,
        torch.sum,
        lambda t: t * 2,
        lambda t: t[1],
        lambda t: t.t(),
        lambda t: t.crow_indices(),
        lambda t: t.values(),
        lambda t: t @ torch.ones(7, 4, device=t.device),
        lambda t: t @ torch.ones(7, device=t.device),
        lambda t: torch.sparse.sampled_addmm(t, torch.ones(6, 3, device=t.device), torch.ones(3, 7, device=t.device)),
    ):
        compare(function, csr)
    for function in (
        torch.Tensor.to_sparse,
        torch.Tensor.to_sparse_csr,
        torch.Tensor.to_sparse_csc,
        lambda t: t.to_sparse_bsr((2, 7)),
    ):
        compare(function, dense)
        compare(function, x)
    compare(lambda t: t.to_sparse(1), dense)
    batch = torch.stack([dense, dense.roll(1, 1)])
    compare(torch.Tensor.to_dense, batch.to_sparse_csr())
    compare(torch.addmv, torch.ones(6), csr, torch.ones(7))


def test_fallbacks_warn(loud_fallback: None) -> None:
    """float64 operators and CSR operators without a kernel fall back with a warning and a correct result."""
    x = coo(6, 7, dtype=torch.float64)
    for function, operand, name in (
        (torch.Tensor.coalesce, x, "_coalesce"),
        (lambda t: torch.sparse.softmax(t, 0), x, "_sparse_softmax"),
        (lambda t: t @ t.t(), coo(6, 7).to_sparse_csr(), "addmm"),
        (lambda t: torch.sum(t, dim=1, keepdim=True), coo(6, 7).to_sparse_csr(), "_sparse_csr_sum"),
    ):
        on_mpsx = operand.to("mpsx")
        with pytest.warns(UserWarning, match=name):
            got = function(on_mpsx)
        torch.testing.assert_close(got.cpu(), function(operand))
