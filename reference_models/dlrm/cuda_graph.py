"""Optimized implementation of DLRM on a CUDA device: a step that is captured once as a graph and replayed.

Replaying costs the host no time for kernel launches. This module has not been run on a GPU: tests replay a recording
of the operators on a CPU. The step is `FusedDLRM`'s, in tensors of fixed shapes. With precision bf16, all tensors
from the bags' sums to the logit are bf16. The batch and the learning rates, which change from step to step, are in
fixed buffers.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from reference_models.data.store.dataset import Batch, ClickDataset
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.dlrm.optimized import SWITCHED_OFF, OptimizedWorkload
from reference_models.fused.choice import MatmulChoice
from reference_models.fused.kernel_check import kernel_problem
from reference_models.fused.matmul import Matmuls
from reference_models.process.errors import CaptureError
from reference_models.training.device_data import HeldSplit, fits, hold
from reference_models.training.phases import Enter, Phase, ignore_phase

_UNKNOWN = "not tried"
"""Reason, in the log, why torch's operators are used instead of Triton's kernels: these have not been tried yet."""


NUM_SLOTS = 2
"""Number of batches on the GPU: the next batch is copied there while the current one is trained on."""
_MAX_INT32 = 2**31 - 1


Stamp = tuple[str, torch.cuda.Event]
"""Phase of a training step, and the CUDA event inside the captured graph at which the phase begins."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """Slot for one batch on the GPU: the batch's buffers, the CUDA graph that trains on them, its loss, and events
    that tell when the batch was copied (`is_full`) and used (`is_free`)."""

    batch: Batch
    graph: torch.cuda.CUDAGraph
    loss: torch.Tensor
    is_full: torch.cuda.Event
    is_free: torch.cuda.Event
    stamps: tuple[Stamp, ...] = ()
    """CUDA events at the beginning of each phase and at the end of the step; empty in a graph that does not time
    phases."""


class CUDAGraphStep:
    """Training step of `FusedDLRM` captured as CUDA graphs, one for each of NUM_SLOTS sets of buffers for a batch.

    The next batch is copied on a stream of its own while the current step computes. Capturing a graph runs nothing.
    """

    def __init__(self, model: FusedDLRM, like: Batch, device: torch.device) -> None:
        self._model, self._device, self._num_runs = model, device, 0
        self._copying = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._rates, self._held_rates = torch.zeros(2, device=device), (0.0, 0.0)
        self._slots: list[_Slot] = []
        self._phased: list[_Slot] = []
        self._untaken: list[_Slot] = []
        self._phase_seconds: dict[str, float] = {}
        self.times_phases = False
        model.prepare(len(like.labels))
        for _ in range(NUM_SLOTS):
            batch = Batch(
                *(torch.zeros_like(part, device=device) for part in (like.dense, like.indices, like.labels))
            )
            is_full, is_free = torch.cuda.Event(), torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._slots.append(_Slot(batch, *self._capture(batch, ignore_phase), is_full, is_free))

    def _capture(self, batch: Batch, enter: Enter) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
        graph = torch.cuda.CUDAGraph()
        # Steps run one after the other, so that the graphs can share memory for temporaries.
        pool = self._slots[0].graph.pool() if self._slots else None
        self._model.enter = enter
        try:
            # For this thread alone: the thread that reads ahead allocates page-locked memory meanwhile, which the
            # default mode forbids to every thread.
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                loss = self._model.train_on_tensors(batch, self._rates)
                enter(Phase.OTHER)
        finally:
            self._model.enter = ignore_phase
        return graph, loss

    def prepare_phases(self) -> None:
        """Capture the training step's graphs a second time, over the same buffers, with CUDA events that time the
        step's phases; do nothing if such graphs were captured before."""
        for slot in () if self._phased else self._slots:
            stamps: list[Stamp] = []

            def stamp(phase: str, stamps: list[Stamp] = stamps) -> None:
                event = torch.cuda.Event(enable_timing=True, external=True)  # type: ignore[no-untyped-call]
                event.record()
                stamps.append((phase, event))

            graph, loss = self._capture(slot.batch, stamp)
            self._phased.append(replace(slot, graph=graph, loss=loss, stamps=tuple(stamps)))

    def run(self, batch: Batch, rates: tuple[float, float], enter: Enter) -> torch.Tensor:
        """Train on a batch in page-locked or GPU memory; return a copy of the loss.

        Two sets of buffers are used in turn, so a step first waits for the end of the step before the last one, which
        used the same buffers. Without this wait the host would run ahead of the GPU, and a fast reader would fill
        memory with unused batches.
        """
        slot = (self._phased if self.times_phases else self._slots)[self._num_runs % NUM_SLOTS]
        self._num_runs += 1
        computing = torch.cuda.current_stream(self._device)
        slot.is_free.synchronize()
        self._take(slot)
        with torch.cuda.stream(self._copying):
            slot.batch.dense.copy_(batch.dense, non_blocking=True)
            slot.batch.indices.copy_(batch.indices, non_blocking=True)
            slot.batch.labels.copy_(batch.labels, non_blocking=True)
            slot.is_full.record(self._copying)
        if rates != self._held_rates:
            self._rates.copy_(torch.tensor(rates).pin_memory(), non_blocking=True)
            self._held_rates = rates
        computing.wait_event(slot.is_full)
        enter(Phase.REPLAY)
        slot.graph.replay()
        slot.is_free.record(computing)
        if slot.stamps:
            self._untaken.append(slot)
        return slot.loss.clone()

    def take_phases(self) -> dict[str, float]:
        """Return the seconds in each phase of the training steps since the last call; waits for the device."""
        for slot in self._untaken.copy():
            slot.is_free.synchronize()
            self._take(slot)
        taken, self._phase_seconds = self._phase_seconds, {}
        return taken

    def _take(self, slot: _Slot) -> None:
        """Add up the seconds in each phase of the last step that used a slot (a batch's buffers and graph), from the
        CUDA events of that step. Do nothing if these seconds were added already."""
        if not any(slot is other for other in self._untaken):
            return
        self._untaken = [other for other in self._untaken if other is not slot]
        for (phase, start), (_, stop) in pairwise(slot.stamps):
            took_s = start.elapsed_time(stop) / 1e3
            self._phase_seconds[phase] = self._phase_seconds.get(phase, 0.0) + took_s


@contextmanager
def _explaining_capture() -> Iterator[None]:
    """Raise CaptureError for any error while a CUDA graph is captured; its message names the setting that avoids
    graphs.

    The first error stays as the CaptureError's cause, so that callers can recognise an out-of-memory error.
    """
    try:
        yield
    except Exception as error:  # any error of an operator, a kernel or CUDA
        first: BaseException = error
        while (before := first.__cause__ or first.__context__) is not None:
            first = before
        raise CaptureError(
            f"the training step could not be captured as a CUDA graph: {type(first).__name__}: "
            f"{(str(first).splitlines() or [''])[0]} Use --set runtime.graph=off, which launches each operator."
        ) from error


class CUDAGraphWorkload(OptimizedWorkload):
    """Workload that trains a DLRM by replaying a CUDA graph; warm-up steps run without a graph, on a stream of their
    own.

    With a graph, a step has two phases. In DATA the device waits for its batch. REPLAY is the graph; its parts are
    timed by events inside the graph (see `take_replayed`). Under `runtime.graph=off` no step is captured: operators
    are launched one by one, and a step has the phases of DLRM's other implementations.
    """

    def build(self) -> None:
        self._graph_step: CUDAGraphStep | None = None
        self._side: torch.cuda.Stream | None = None
        self._held: dict[str, HeldSplit] = {}
        self._kernel_problem: str | None = _UNKNOWN if self.spec.runtime.kernels == "auto" else SWITCHED_OFF
        super().build()
        self._side = None
        if self.spec.runtime.graph == "off":
            return
        train = self.data.train
        like = Batch.empty(train, self.global_batch_size, has_int32_ids=self._has_int32_ids(train))
        with _explaining_capture():
            self._graph_step = CUDAGraphStep(self.model, like, self.device)

    def _make_matmuls(self, choice: MatmulChoice | None) -> Matmuls:
        dtype = torch.bfloat16 if self._autocast_bf16 else None
        return Matmuls(choice, dtype=dtype, keeps_results=False, has_kernels=self._has_kernels())

    def _has_kernels(self) -> bool:
        """Return whether the step uses Triton's kernels. The first call, while the small model for warm-up is built,
        tries whether they work, and later calls return the same answer."""
        if self._kernel_problem == _UNKNOWN:
            dim = self.spec.model.embedding_dim
            state_size = {"sgd": 0, "rowwise_adagrad": 1, "adagrad": dim}[self.spec.train.opt_name]
            dtype = torch.bfloat16 if self._autocast_bf16 else torch.float32
            self._kernel_problem = kernel_problem(self.device, dim, state_size, dtype)
        return self._kernel_problem is None

    def hyperparameters(self) -> Mapping[str, int | float | str]:
        """Return the run's settings by their keys in the log, among them whether Triton kernels and a CUDA graph are
        used.

        If Triton's kernels are not used, the value of `kernels` says why.
        """
        problem = self._kernel_problem
        return {
            **super().hyperparameters(),
            "kernels": "triton" if problem is None else f"torch: {problem}",
            "graph": "off" if self._graph_step is None else "captured",
        }

    def train_step(self, model: FusedDLRM, optimizers: list[torch.optim.Optimizer], batch: Batch) -> torch.Tensor:
        model.num_steps += 1
        rates = (model.rates(optimizers[0])[0], model.rates(optimizers[1])[0])
        if self._graph_step is not None:
            return self._graph_step.run(batch, rates, self.enter)
        if self.spec.runtime.graph == "off":
            on_device = torch.tensor(rates).pin_memory().to(self.device, non_blocking=True)
            return model.train_on_tensors(self._to_device(batch), on_device)
        # One stream for all steps: the allocator reuses a stream's memory for that stream only.
        if self._side is None:
            self._side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        side = self._side
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            loss = model.train_on_tensors(self._to_device(batch), torch.tensor(rates, device=self.device))
        torch.cuda.current_stream(self.device).wait_stream(side)
        return loss

    @contextmanager
    def report_phases(self, enter: Enter) -> Iterator[None]:
        if self._graph_step is None:
            with super().report_phases(enter):
                yield
            return
        with _explaining_capture():
            self._graph_step.prepare_phases()
        self._graph_step.times_phases, self.enter = True, enter
        try:
            yield
        finally:
            self._graph_step.times_phases, self.enter = False, ignore_phase

    def take_replayed(self) -> dict[str, float]:
        """Return the seconds in each phase of the steps that were replayed inside `report_phases` since the last
        call."""
        return {} if self._graph_step is None else self._graph_step.take_phases()

    def compute_logits(self, model: FusedDLRM, batch: Batch) -> torch.Tensor:
        dense, indices = (part.to(self.device, non_blocking=True) for part in (batch.dense, batch.indices))
        return model.logits(Batch(dense, indices, batch.labels))

    def read_batches(self, split: ClickDataset, name: str, starts: range, batch_size: int) -> Iterator[Batch]:
        held = self._hold(split, name)
        if held is None:
            yield from super().read_batches(split, name, starts, batch_size)
            return
        for start in starts:
            self.enter(Phase.DATA)
            yield held.slice(start, min(start + batch_size, split.num_samples), has_host_labels=name == "eval")

    def _hold(self, split: ClickDataset, name: str) -> HeldSplit | None:
        """Return the copy of a dataset split that the GPU holds, made at the first call; None if the split does not
        fit in GPU memory, or is read only once.

        Splits that are read more than once are the evaluation split, and synthetic data, which is in no file.
        """
        is_repeated = name == "eval" or not self.data.files
        if name not in self._held and is_repeated and fits(split, torch.cuda.mem_get_info(self.device)[0]):
            size = self.spec.train.eval_batch_size
            batches = super().read_batches(split, name, range(0, split.num_samples, size), size)
            self._held[name] = hold(split, batches, self.device)
            self.synchronize()  # the stream that copies batches does not wait for this one
        return self._held.get(name)

    def _to_device(self, batch: Batch) -> Batch:
        # Ids have the captured step's type, so that warm-up loads the same kernels.
        indices = batch.indices.int() if self._has_int32_ids(self.data.train) else batch.indices
        parts = (batch.dense, indices, batch.labels)
        return Batch(*(part.to(self.device, non_blocking=True) for part in parts))

    def read_batch(self, split: ClickDataset, name: str, start: int, stop: int) -> Batch:
        """Read samples `start` to `stop` - 1 into page-locked memory, from which they can be copied
        asynchronously."""
        batch = Batch.empty(split, stop - start, has_int32_ids=self._has_int32_ids(split), is_pinned=True)
        split.read_into(start, stop, batch)
        batch.check(split, f"{self.spec.data_dir}: {name} sample", start)
        return batch

    def _has_int32_ids(self, split: ClickDataset) -> bool:
        return max(split.num_embeddings) <= _MAX_INT32
