"""Count FLOP and operators of a training step by running one on the CPU, for models that declare no costs."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from reference_models.config.sections import DataConfig, RuntimeConfig, TrainConfig, parse_train
from reference_models.costs import PhaseCosts, Step, make_click_lookups
from reference_models.data.store.dataset import OpenedDataset
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess
from reference_models.training.loop import WARM_UP_ROWS, TrainingLoop
from reference_models.training.phases import Phase
from reference_models.training.workload import WorkloadSpec


@dataclass(frozen=True, slots=True)
class _Shapes:
    """Dataset split with shapes (features, tables, number of samples), but without samples to read."""

    num_dense: int
    num_embeddings: tuple[int, ...]
    multi_hot: tuple[int, ...]
    num_samples: int

    def read(self, start: int, stop: int) -> Any:
        raise AssertionError("operations of a step are counted on synthetic data: no samples are read")

    def read_into(self, start: int, stop: int, batch: Any) -> None:
        raise AssertionError("operations of a step are counted on synthetic data: no samples are read")


def count_step(load: Any, opt_name: str, model: Any, data: DataConfig, batch_size: int) -> Step:
    """Train one synthetic batch on the CPU with small tables; return the step's costs as counted by torch's
    FlopCounterMode.

    `load` makes a `TrainingLoop`. FLOP are those of the matrix products of the forward and backward pass. The result
    has the number of weights, but neither the bytes of layers nor the shapes of matrix products. Modules of the types
    `nn.EmbeddingBag` and `nn.Embedding` count as embedding tables. Raises ConfigError if the workload is no
    `TrainingLoop`.
    """
    from torch.utils.flop_counter import FlopCounterMode  # imports triton

    counted = max(2, batch_size)  # since layers such as BatchNorm cannot train on a single sample
    train = {"global_batch_size": counted, "opt_name": opt_name, "opt_base_learning_rate": 0.01}
    small = _cut_tables(data)
    loop = _prepare(load, model, data, parse_train(train), small)
    with _keeping_generators():
        net, _ = loop.build_model(small)
        batch = loop.make_synthetic_batch(small, counted)
        with FlopCounterMode(display=False) as forward:
            logits = loop.compute_logits(net, batch)
        with FlopCounterMode(display=False) as backward:
            loss = nn.functional.binary_cross_entropy_with_logits(logits, batch.labels)
            loss.backward()  # type: ignore[no-untyped-call]
    table_weights = sum(
        _size(module) for module in net.modules() if isinstance(module, nn.EmbeddingBag | nn.Embedding)
    )
    return Step(
        layers=(),
        num_other_parameters=_size(net) - table_weights,
        beside={
            Phase.FORWARD: PhaseCosts(matmul_flop=forward.get_total_flops() * batch_size // counted),
            Phase.LOSS: PhaseCosts(matmul_flop=backward.get_total_flops() * batch_size // counted),
        },
        lookups=make_click_lookups(data, _width(table_weights, small), batch_size) if table_weights else None,
    )


class _Counting:
    """Mixin that counts torch operators: a subclass inherits from the mixin and from torch's TorchDispatchMode.

    The mixin defines `__torch_dispatch__`, not the subclass. torch would wrap a method that the subclass defines, and
    the wrapper imports torch's compiler and triton at the first operator.
    """

    counts: Counter[str]
    _phase: str

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[self._phase] += 1
        return func(*args, **(kwargs or {}))


class OperatorCounter(_Counting, TorchDispatchMode):
    """Dispatch mode that, while entered, counts the operators that torch runs in each phase, autograd's included."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts = Counter()
        self._phase = Phase.OTHER

    def enter(self, phase: str) -> None:
        self._phase = phase


def prepare_step(
    load: Any, model: Any, data: DataConfig, train: TrainConfig, num_samples: int
) -> tuple[TrainingLoop, Callable[[], object]]:
    """Return a training loop on the CPU, and a function that trains its next step.

    The step has `num_samples` synthetic samples and small tables. The loop has trained one step, so
    that the optimizers have their state. Raises ConfigError for a workload that is no `TrainingLoop`.
    """
    small = _cut_tables(data)
    loop = _prepare(load, model, data, train, small)
    with _keeping_generators():
        loop.model, loop.optimizers = loop.build_model(small)
        batch = loop.make_synthetic_batch(small, num_samples)
        loop.train_step(loop.model, loop.optimizers, batch)
    return loop, lambda: loop.train_step(loop.model, loop.optimizers, batch)


def count_operators(load: Any, model: Any, data: DataConfig, train: TrainConfig, num_samples: int) -> dict[str, int]:
    """Return the number of torch operators in each phase of the training step that `prepare_step` makes."""
    loop, step = prepare_step(load, model, data, train, num_samples)
    counter = OperatorCounter()
    with loop.report_phases(counter.enter), counter:
        step()
    return dict(counter.counts)


def _cut_tables(data: DataConfig) -> tuple[int, ...]:
    return tuple(min(rows, WARM_UP_ROWS) for rows in data.num_embeddings or (WARM_UP_ROWS,) * data.num_sparse)


def _prepare(load: Any, model: Any, data: DataConfig, train: TrainConfig, small: tuple[int, ...]) -> TrainingLoop:
    spec = WorkloadSpec(model=model, data=data, train=train, runtime=RuntimeConfig(), data_dir=Path(), seed=0)
    loop = load(spec, SingleProcess())
    if not isinstance(loop, TrainingLoop):
        raise ConfigError(f"{type(loop).__name__} is no TrainingLoop, so its ModelSpec has to declare its costs.")
    shapes = _Shapes(data.num_dense, small, data.multi_hot, train.global_batch_size)
    loop.prepare_shapes(OpenedDataset(train=shapes, eval=shapes, dataset_sha256=None, files={}))
    return loop


@contextmanager
def _keeping_generators() -> Iterator[None]:
    """Redirect prints of the code in the `with` block to standard error; restore torch's random generators at the
    block's end."""
    with torch.random.fork_rng(devices=[]), redirect_stdout(sys.stderr):
        yield


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _width(num_weights: int, rows: Sequence[int]) -> int:
    """Return the mean number of weights per embedding row, at least 1, from the number of weights of all tables and
    each table's number of rows."""
    return max(1, round(num_weights / sum(rows)))
