"""Test calls for every operator overload that PyTorch's MPS backend implements.

Each line of mps_operators.txt names an overload and the source of its test call:

    opinfo NAME INDEX              the forward or backward pass of sample INDEX of the OpInfo NAME
    like OVERLOAD NAME INDEX       the call of OVERLOAD in that sample, with the results passed as out=
    call                           an entry of CALLS in mps_operator_calls.py
    none REASON                    no call, for the given reason

After a change in PyTorch or in the list of overloads, run `python tests/support/mps_operators.py` to regenerate the
file.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from mps_operator_calls import CALLS, NOT_CALLED
from opinfo.common import DEVICE, OPS, backward_dtypes, call, main_dtype, on_cpu, op_id, samples
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

LIST = Path(__file__).with_name("mps_operators.txt")
SAMPLES = 3  # number of samples per OpInfo
CANDIDATES = 8  # how many recorded calls of an overload to try with its other forms

# (overload, positional arguments, keyword arguments)
Call = tuple[OpOverload, tuple, dict]
Calls = dict[str, Call]


def read_list() -> dict[str, str]:
    """Return a dict from overload names such as "add.out" to the sources of their calls."""
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return {name: source for name, _, source in (line.partition("\t") for line in lines)}


def overload(name: str) -> OpOverload | None:
    """Return the overload with this name, or None if this version of PyTorch lacks it."""
    base, _, rest = name.partition(".")
    return getattr(getattr(torch.ops.aten, base, None), rest or "default", None)


def name_of(function: OpOverload) -> str:
    """Return the name of an overload. The inverse of `overload`."""
    return str(function).removeprefix("aten.").removesuffix(".default")


def copied(tree: object, device: str = "cpu") -> object:
    """Copy all tensors to a device with the same strides, and replace device arguments by this device."""

    def move(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return torch.empty_like(value.detach(), device=device).copy_(value.detach())
        return torch.device(device) if isinstance(value, torch.device) else value

    return tree_map(move, tree)


def is_supported_by_mps(t: torch.Tensor) -> bool:
    """Return whether MPS supports the tensor's layout and dtype."""
    return t.layout == torch.strided and t.dtype not in (torch.float64, torch.complex128)


class Recorder(TorchDispatchMode):
    """Records the first call of each overload whose arguments MPS supports."""

    def __init__(self, wanted: Iterable[str]) -> None:
        super().__init__()
        self.wanted = set(wanted)
        self.calls: Calls = {}

    def __torch_dispatch__(
        self, function: OpOverload, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        kwargs = kwargs or {}
        name = name_of(function)
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if name in self.wanted and name not in self.calls and all(map(is_supported_by_mps, tensors)):
            self.calls[name] = (function, copied(args), copied(kwargs))
        return function(*args, **kwargs)


def differentiate(result: object) -> None:
    """Run the backward pass of every output that requires grad."""
    outputs = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])


def record(name: str, first: int, count: int, wanted: Iterable[str]) -> Iterator[Calls]:
    """For each sample of the OpInfo, yield a dict with the calls of the wanted overloads."""
    for op in OPS:
        if op_id(op) != name:
            continue
        dtype = main_dtype(op)
        made = samples(op, dtype, first + count, requires_grad=dtype in backward_dtypes(op))
        for sample in islice(made, first, None):
            recorder = Recorder(wanted)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    with recorder:
                        differentiate(call(op.get_op(), on_cpu(sample)))
                except (RuntimeError, NotImplementedError):
                    pass  # the sample is not strided, or the CPU rejects it
            yield recorder.calls


def with_arguments_of(function: OpOverload, c: Call) -> Call | None:
    """Return a call of `function` with the arguments of `c`, which is a different form, and with the results as out=.
    Return None if the schemas do not match."""
    arguments = c[0]._schema.arguments
    values = {a.name: a.default_value for a in arguments if a.has_default_value()}
    values |= {a.name: value for a, value in zip(arguments, c[1], strict=False)} | c[2]
    written = [a.name for a in function._schema.arguments if a.alias_info and a.alias_info.is_write and a.kwarg_only]
    if {a.name for a in function._schema.arguments} - set(written) != {a.name for a in arguments}:
        return None
    if written:
        results = tree_leaves(c[0](*copied(c[1]), **copied(c[2])))
        if len(results) != len(written):
            return None
        values |= {name: torch.empty_like(r) for name, r in zip(written, results, strict=True)}
    return function, (), values


def call_on_device(c: Call) -> Callable[[], object]:
    """Return a function that makes the call on the device."""
    return lambda: c[0](*copied(c[1], DEVICE), **copied(c[2], DEVICE))


def replay() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield (name, call) for each overload that has a test call."""
    by_sample: dict[tuple[str, int], list[tuple[str, str]]] = defaultdict(list)
    for name, source in read_list().items():
        kind, *rest = source.split(" ")
        if overload(name) is None or kind == "none":
            continue
        if kind == "call":
            yield name, partial(CALLS[name], DEVICE)
        else:
            *base, op, index = rest
            by_sample[op, int(index)].append((name, base[0] if base else name))
    for (op, index), names in by_sample.items():
        for calls in record(op, index, 1, {base for _, base in names}):
            for name, base in names:
                if base in calls:
                    made = calls[base] if base == name else with_arguments_of(overload(name), calls[base])
                    if made:
                        yield name, call_on_device(made)


def siblings(name: str) -> list[str]:
    """Return the overloads of the operator's functional and in-place forms."""
    base = name.partition(".")[0].removesuffix("_")
    found = []
    for family in (base, base + "_"):
        packet = getattr(torch.ops.aten, family, None)
        if packet is not None:
            found += [family if o == "default" else f"{family}.{o}" for o in packet.overloads()]
    return found


def succeeds(c: Call | None) -> bool:
    if c is None:
        return False
    try:
        c[0](*copied(c[1]), **copied(c[2]))
    except (RuntimeError, NotImplementedError, TypeError):
        return False
    return True


def sources(names: list[str]) -> dict[str, str]:
    """Find calls of the given overloads among the samples of all OpInfos."""
    found: dict[str, list[tuple[str, Call]]] = defaultdict(list)
    wanted = {form for name in names for form in (name, *siblings(name))}
    for op in dict.fromkeys(op_id(op) for op in OPS):
        for index, calls in enumerate(record(op, 0, SAMPLES, wanted)):
            for name, c in calls.items():
                if len(found[name]) < CANDIDATES:
                    found[name].append((f"{op} {index}", c))
    result = {}
    for name in names:
        function = overload(name)
        if name in NOT_CALLED:
            result[name] = f"none {NOT_CALLED[name]}"
        elif name in CALLS:
            result[name] = "call"
        elif name in found:
            result[name] = f"opinfo {found[name][0][0]}"
        elif function is not None:
            for base in siblings(name):
                for source, c in found[base]:
                    if name not in result and succeeds(with_arguments_of(function, c)):
                        result[name] = f"like {base} {source}"
        result.setdefault(name, "none")
    return result


def main(write: Callable[[str], object]) -> None:
    """Regenerate mps_operators.txt."""
    head = [line for line in LIST.read_text().splitlines() if line.startswith("#")]
    write("\n".join(head + [f"{name}\t{source}" for name, source in sources(list(read_list())).items()]) + "\n")


if __name__ == "__main__":
    main(LIST.write_text)
