"""CUDA devices on a CPU, for tests of what the product asks of torch.cuda: nothing here has run on a GPU.

Tensors of a CUDA device are the CPU's, streams run at once, and a graph is the list of operators that were called
while it was captured: capturing leaves no trace in the tensors that were there before, and a replay runs the list
over the same memory, as a GPU would. What a capture may not do, to wait for the device or to make a shape of values,
is an assertion.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
WAITS_OR_MAKES_SHAPES = (
    "_local_scalar_dense", "is_nonzero", "nonzero", "unique", "_unique", "masked_select", "equal", "item", "bincount",
)  # fmt: skip
"""Operators, or how their names begin, that CUDA cannot capture."""


class EmulatedCUDA(TorchFunctionMode):
    """`num_gpus` devices of this process; `made` says what was made while which of them was the current one."""

    def __init__(self, num_gpus: int) -> None:
        super().__init__()
        self.num_gpus, self.current = num_gpus, 0
        self.is_capturing = False
        self.made: list[tuple[str, int]] = []
        self.graphs: list[Graph] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Autograd and torch.device's own functions see no device.
        return func(*_to_cpu(args), **_to_cpu(kwargs or {}))

    def note(self, what: str) -> None:
        self.made.append((what, self.current))


def _to_cpu(value: Any) -> Any:
    """The same with CPU for every CUDA device in it; it is called for every operator, so it is short."""
    kind = type(value)
    if kind is torch.device:
        return CPU if value.type == "cuda" else value
    if kind is tuple or kind is list:
        return kind(map(_to_cpu, value))
    return {key: _to_cpu(part) for key, part in value.items()} if kind is dict else value


class Recorder(TorchDispatchMode):
    """Runs and writes down every operator, and keeps a copy of the memory that was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []
        self.before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self._made: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        assert not name.startswith(WAITS_OR_MAKES_SHAPES), f"{func} cannot be captured"
        for storage in _storages((args, kwargs)):
            if storage._cdata not in self._made and storage._cdata not in self.before:
                self.before[storage._cdata] = storage, storage.clone()
        out = func(*args, **(kwargs or {}))
        self._made |= {storage._cdata for storage in _storages(out)} - self.before.keys()
        self.calls.append((func, args, kwargs or {}, out))
        return out


def _storages(values: Any) -> list[torch.UntypedStorage]:
    return [value.untyped_storage() for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


class Graph:
    """What was captured; `num_kernels` of its calls compute something."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, Any, Any]] = []
        self.num_replays = 0

    @property
    def num_kernels(self) -> int:
        return sum(not func.is_view for func, *_ in self.calls)

    def pool(self) -> tuple[int, int]:
        return (0, id(self))

    @torch.no_grad()
    def replay(self) -> None:
        assert self.calls, "nothing was captured"
        self.num_replays += 1
        for func, args, kwargs, out in self.calls:
            if func.is_view:
                continue
            for new, old in zip(tree_leaves(func(*args, **kwargs)), tree_leaves(out), strict=True):
                if isinstance(old, torch.Tensor) and new.untyped_storage()._cdata != old.untyped_storage()._cdata:
                    old.detach().copy_(new)


class Stream:
    """One that has always finished."""

    def __init__(self, *args: object, **options: object) -> None:
        pass

    def wait_stream(self, other: object) -> None:
        pass

    def wait_event(self, event: object) -> None:
        pass

    def synchronize(self) -> None:
        pass


@contextmanager
def emulate_cuda(monkeypatch: pytest.MonkeyPatch, num_gpus: int) -> Iterator[EmulatedCUDA]:
    """Put `num_gpus` GPUs into torch.cuda while inside; `monkeypatch` takes them out."""
    emulated = EmulatedCUDA(num_gpus)

    class Event:
        def __init__(self, **options: object) -> None:
            emulated.note("event")

        def record(self, stream: object = None) -> None:
            pass

        def synchronize(self) -> None:
            pass

        def elapsed_time(self, other: object) -> float:
            return 1.0

    @contextmanager
    def capture(graph: Graph, *, pool: object = None, capture_error_mode: str = "global") -> Iterator[None]:
        assert capture_error_mode == "thread_local", "a thread that reads ahead may take page-locked memory meanwhile"
        emulated.note("graph")
        emulated.graphs.append(graph)
        recorder = Recorder()
        emulated.is_capturing = True
        try:
            with recorder:
                yield
        finally:
            emulated.is_capturing = False
        graph.calls = recorder.calls
        for storage, before in recorder.before.values():
            storage.copy_(before)

    def set_device(device: torch.device | int) -> None:
        index = device if isinstance(device, int) else device.index
        assert index is not None
        emulated.current = index

    def properties(device: torch.device | int) -> SimpleNamespace:
        return SimpleNamespace(total_memory=80 << 30, uuid=f"emulated-{device}", name="emulated")

    replaced = {
        "is_available": lambda: True,
        "device_count": lambda: num_gpus,
        "current_device": lambda: emulated.current,
        "set_device": set_device,
        "get_device_properties": properties,
        "mem_get_info": lambda device=None: (79 << 30, 80 << 30),
        "synchronize": lambda device=None: emulated.note("synchronize"),
        "reset_peak_memory_stats": lambda device=None: None,
        "max_memory_allocated": lambda device=None: 1 << 20,
        "max_memory_reserved": lambda device=None: 1 << 21,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "Stream": Stream,
        "current_stream": lambda device=None: Stream(),
        "is_current_stream_capturing": lambda: emulated.is_capturing,
        "stream": lambda stream: nullcontext(),
        "Event": Event,
        "CUDAGraph": Graph,
        "graph": capture,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(torch.cuda, name, value)
    # Optimizers ask here whether their step is captured; a build with CUDA would look for a driver.
    stream = SimpleNamespace(is_capturing=lambda: emulated.is_capturing)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: CUDA)
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda device=None: stream)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self, *args: self.clone())
    empty = torch.empty
    with torch.device("cpu"):  # As a context it keeps the functions that it first meets, for all tests of a process.
        empty(0)
    monkeypatch.setattr(torch, "empty", lambda *size, pin_memory=False, **options: empty(*size, **options))
    with emulated:
        yield emulated
