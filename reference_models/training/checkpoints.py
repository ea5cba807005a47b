"""Checkpoints during training of a model with embedding tables: changed rows, quantised, written by another thread.

After Check-N-Run (Eisenman et al., NSDI 2022). A checkpoint is a mapping from names to tensors. `codes.<table>` has
rows of an embedding table, in torch's row-wise formats. `rows.<table>` has the numbers of these rows, as a bitmap
(uint8) or as ids; it is left out where all rows are held. `model.<name>` is any other weight.
`state.<parameter>.<key>` is a tensor of optimizer state; for a table it has the state of the same rows as
`codes.<table>`. `scalar.<parameter>.<key>` is a single number of optimizer state. `generator` is the state of torch's
random generator. A training state restored from checkpoints has `model.<name>` of every weight, and neither codes nor
rows.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch

from reference_models.config.checkpoint import CheckpointConfig
from reference_models.process.errors import ArtifactError, ConfigError, NotFiniteError
from reference_models.training.loop import TrainingLoop
from reference_models.training.optimizers import name_built

Tensors = Mapping[str, torch.Tensor]
_FORMATS = {8: ("byte", 8), 4: ("4bit", 4), 2: ("2bit", 4)}
"""Formats of quantised rows in checkpoints: a dict from bits per value to two things. The first is the word for * in
the names of torch's operators (torch.ops.quantized.embedding_bag_*_prepack and _unpack). The second is the number of
bytes that a row's scale and offset take together: both are float32 at 8 bits, float16 below."""
_BINS = 200
"""Number of steps of the greedy search for the range of a quantised row."""
_RATIOS = {4: 0.16, 2: 0.5}
"""Dict from bits per value to the share of a row's range that the greedy search may cut off."""
_PIECE = 1 << 16
"""Number of table rows that are quantised at a time."""


class CheckpointStore(Protocol):
    """Storage of a run's checkpoints, which are numbered from 0."""

    def write(self, chain: Sequence[int], samples_count: int, tensors: Tensors) -> tuple[Mapping[str, int], int]:
        """Write a checkpoint, whole or not at all. `chain` lists the numbers of all checkpoints that are needed to
        restore it; the last is the checkpoint's own number.

        Returns the bytes of each tensor, and of the manifest. Raises OSError.
        """

    def remove(self, index: int) -> None:
        """Remove a checkpoint, whole or not at all, that is not needed to restore any other. Raises OSError."""

    def read(self, index: int) -> Tensors:
        """Return the whole training state that checkpoint number `index` restores."""

    def count_bytes(self, tensor: torch.Tensor) -> int:
        """Return the bytes that a tensor takes in the storage of checkpoints."""


class TouchedRows:
    """Record of the table rows that batches have looked up: a bool for each row in `is_touched` [sum(rows)]."""

    def __init__(self, num_embeddings: Sequence[int], multi_hot: Sequence[int]) -> None:
        shifts = np.cumsum(num_embeddings) - num_embeddings
        self._starts, self._shifts = shifts[1:], np.repeat(shifts, multi_hot)
        self.is_touched = np.zeros(sum(num_embeddings), dtype=bool)

    def mark(self, ids: torch.Tensor) -> None:
        """Mark the table rows of a batch's ids [B, sum(multi_hot)] as looked up."""
        self.is_touched[(ids.cpu().numpy() + self._shifts).ravel()] = True  # a flat index is a third faster

    def list_rows(self) -> list[torch.Tensor]:
        """Return the numbers of the marked rows of each table, ascending, int64."""
        return [torch.from_numpy(np.flatnonzero(part)) for part in np.split(self.is_touched, self._starts)]


def is_base_due(policy: str, shares: Sequence[float]) -> bool:
    """Return whether the next checkpoint must be a base, which holds all rows, and not an increment of changed rows.

    The policy `full` writes bases only. `intermittent` writes a base as soon as restoring from it is expected to read
    less: 1 + sum(S) <= (i + 1) S_i, where S has the share of all rows in each of the i increments since the last base
    (`shares`). All other policies write no further base.
    """
    is_due = policy == "intermittent" and bool(shares) and 1 + sum(shares) <= (len(shares) + 1) * shares[-1]
    return policy == "full" or is_due


def pack(rows: torch.Tensor, bits: int, rounding: str) -> torch.Tensor:
    """Return float32 rows [K, d] quantised to codes, uint8 [K, bytes of a row]; with 32 bits the rows unchanged.

    With `adaptive`, a greedy search from both ends chooses the range of least squared error.
    """
    if bits == 32:
        return rows
    prepack = getattr(torch.ops.quantized, f"embedding_bag_{_FORMATS[bits][0]}_prepack")
    options = (True, _BINS, _RATIOS[bits]) if rounding == "adaptive" else ()
    return torch.cat([prepack(piece, *options) for piece in rows.tensor_split(-(-len(rows) // _PIECE) or 1)])


def unpack(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Return the float32 rows [K, d] that `codes` of `bits` bits stand for.

    Raises ArtifactError for a tensor that holds no codes.
    """
    if bits == 32:
        return codes
    kind, num_more = _FORMATS[bits]
    if codes.dtype != torch.uint8 or codes.dim() != 2 or codes.shape[1] <= num_more:
        raise ArtifactError(f"{tuple(codes.shape)} values of {codes.dtype} are no rows of {bits} bits.")
    rows: torch.Tensor = getattr(torch.ops.quantized, f"embedding_bag_{kind}_unpack")(codes)
    return rows


def pack_rows(rows: torch.Tensor, num_rows: int) -> torch.Tensor:
    """Return row numbers for a checkpoint in the form that takes fewer bytes: as ids, or as a bitmap over `num_rows`
    rows."""
    ids = rows.to(torch.int32 if num_rows < 2**31 else torch.int64)
    if -(-num_rows // 8) > ids.nbytes:
        return ids
    is_in = np.zeros(num_rows, dtype=bool)
    is_in[rows.numpy()] = True
    return torch.from_numpy(np.packbits(is_in))


def join(chain: Iterable[Tensors], bits: int) -> Tensors:
    """Return the training state that a chain of checkpoints restores: the first checkpoint, which holds all rows, and
    the later checkpoints whose changed rows replace its rows.

    Raises ArtifactError where the checkpoints do not belong together.
    """
    whole: dict[str, torch.Tensor] = {}
    for tensors in chain:
        for name, tensor in tensors.items():
            kind, _, rest = name.partition(".")
            of_rows = tensors.get(f"rows.{rest if kind == 'codes' else _owner(name)}")
            if kind == "codes":
                name, tensor = f"model.{rest}", unpack(tensor, bits)
            if kind in ("codes", "state") and of_rows is not None:
                _put(whole, name, of_rows, tensor)
            elif kind != "rows":
                whole[name] = tensor
    return whole


def _put(whole: Tensors, name: str, of_rows: torch.Tensor, tensor: torch.Tensor) -> None:
    known, rows = whole.get(name, torch.empty(0)), of_rows.numpy()
    if of_rows.dtype == torch.uint8:
        rows = np.flatnonzero(np.unpackbits(rows))
    are_rows = of_rows.dim() == 1 and min(known.dim(), tensor.dim()) > 0
    is_inside = are_rows and rows.min(initial=0) >= 0 and rows.max(initial=-1) < len(known)
    if not is_inside or len(rows) != len(tensor) or known.shape[1:] != tensor.shape[1:]:
        raise ArtifactError(f"{name} has rows that the checkpoint before it does not have.")
    known[torch.from_numpy(rows).long()] = tensor


def list_state(loop: TrainingLoop) -> tuple[Tensors, Tensors]:
    """Return a training loop's tables by weight name, and all its other state by its name in a checkpoint; tensors
    are not copied."""
    state = loop.state()
    names = {parameter: name for name, parameter in loop.model.named_parameters()}
    tables = {names[table]: table.detach() for group in loop.optimizers[0].param_groups for table in group["params"]}
    others = {f"model.{name}": weight for name, weight in state["model"].items() if name not in tables}
    for optimizer in loop.optimizers:
        for parameter, values in optimizer.state.items():
            for key, value in values.items():
                if isinstance(value, torch.Tensor):
                    others[f"{'state' if value.dim() else 'scalar'}.{names[parameter]}.{key}"] = value
    return tables, others | {"generator": state["rng"]}


@torch.no_grad()
def load_state(loop: TrainingLoop, restored: Tensors, samples_count: int) -> None:
    """Load a restored state into a training loop after `build`, so that it continues after `samples_count`
    samples."""
    tables, others = list_state(loop)
    for name, live in {**{f"model.{name}": table for name, table in tables.items()}, **others}.items():
        live.copy_(restored[name])
    loop.go_on(samples_count // loop.global_batch_size, others["generator"])


class Checkpoints:
    """Maker of a training loop's checkpoints. The loop's thread copies the tensors, while training stands still;
    another thread writes the copies.

    At most one checkpoint is written at a time. The next checkpoint waits until it is written; this wait is recorded
    apart from the time of copying. After a failure no more checkpoints are made, `error` has the reason, and training
    goes on.
    """

    def __init__(
        self, loop: TrainingLoop, config: CheckpointConfig, store: CheckpointStore, restore_after: Collection[int]
    ) -> None:
        self._loop, self._config, self._store, self._restore_after = loop, config, store, restore_after
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None
        self._samples, self._chain = 0, list[int]()
        self._shares: list[float] = []
        self._chains: list[list[int]] = []
        """For each checkpoint written, the numbers of all checkpoints that are needed to restore it."""
        self._kept_bytes: dict[int, int] = {}
        """Bytes of each checkpoint on disk, by the checkpoint's number."""
        self.error: Exception | None = None
        self.taken: list[dict[str, Any]] = []
        """Measurements of each checkpoint that was made, in order, by the measurement's name (such as num_bytes,
        stall_s, write_s)."""
        self.restore_s: float | None = None
        self.num_restores = 0

    def begin(self) -> None:
        """Prepare to make checkpoints of the training loop, after the loop's `build`.

        Raises ConfigError for a model or settings of which no checkpoints can be made.
        """
        loop, split, config = self._loop, self._loop.data.train, self._config
        self._every, opt_name = config.interval(split.num_samples), loop.spec.train.opt_name
        if self._every < loop.global_batch_size:
            raise ConfigError(f"checkpoint.every is {config.every}, {self._every} samples: less than a batch.")
        tables, others = list_state(loop) if len(loop.optimizers) > 1 else ({}, {})
        if (found := [len(table) for table in tables.values()]) != list(split.num_embeddings):
            raise ConfigError(
                f"checkpoint: implementation {loop.name!r} has tables of {found} rows, expected one for each sparse "
                f"feature, {list(split.num_embeddings)}: else a batch's changed rows are unknown."
            )
        if (built := name_built(opt_name, loop.optimizers)) != opt_name and config.policy != "full":
            raise ConfigError(
                f"checkpoint.policy is {config.policy!r}, but {built} may change rows that no batch looks up. "
                "Give full."
            )
        per_byte = 8 // min(config.bits, 8)
        if bad := [(name, table.shape[1]) for name, table in tables.items() if table.shape[1] % per_byte]:
            raise ConfigError(
                f"checkpoint.bits is {config.bits}, which takes rows of a multiple of {per_byte} values; {bad[0][0]} "
                f"has rows of {bad[0][1]}. Give more bits."
            )
        self._touched = TouchedRows(split.num_embeddings, split.multi_hot)
        self._num_rows = dict(zip(tables, split.num_embeddings, strict=True))
        self.full_embedding_bytes = sum(map(self._store.count_bytes, tables.values()))
        self.full_bytes = self.full_embedding_bytes + sum(map(self._store.count_bytes, others.values()))

    def after_step(self, ids: torch.Tensor) -> None:
        """Mark the table rows of a step's ids as changed, and make a checkpoint if one is due."""
        self._touched.mark(ids)
        before, self._samples = self._samples, self._samples + self._loop.global_batch_size
        if before // self._every == self._samples // self._every or self.error is not None:
            return
        began_s = perf_counter()
        self._wait()
        copying_s = perf_counter()
        if self.error is None:
            entry = self._copy()
            entry |= {"wait_s": copying_s - began_s, "stall_s": perf_counter() - copying_s}
        if len(self.taken) - 1 in self._restore_after:
            self._restore()

    def _copy(self) -> dict[str, Any]:
        """Copy the tensors of the next checkpoint and start writing them in a thread. Return the checkpoint's
        measurements, which the thread completes."""
        policy, is_touched = self._config.policy, self._touched.is_touched
        tables, others = list_state(self._loop)
        is_base = not self._chain or is_base_due(policy, self._shares)
        rows = dict.fromkeys(tables) if is_base else dict(zip(tables, self._touched.list_rows(), strict=True))
        self._shares = [] if is_base else [*self._shares, float(is_touched.mean())]
        before = [] if is_base else self._chain if policy == "consecutive" else self._chain[:1]
        self._chain = [*before, len(self.taken)]
        if is_base or policy == "consecutive":
            is_touched[:] = False
        copied = {name: _copy_rows(table, rows[name]) for name, table in tables.items()}
        more = {name: _copy_rows(value, rows.get(_owner(name))) for name, value in others.items()}
        self.taken.append({"index": len(self.taken), "samples_count": self._samples, "is_base": is_base})
        self._pending = self._thread.submit(self._write, self._chain, copied, rows, more)
        return self.taken[-1]

    def _write(
        self, chain: list[int], tables: Tensors, which: Mapping[str, torch.Tensor | None], others: Tensors
    ) -> None:
        began_s, bits, error = perf_counter(), self._config.bits, 0.0
        tensors, entry = dict(others), self.taken[chain[-1]]
        for name, rows in tables.items():
            tensors[f"codes.{name}"] = codes = pack(rows, bits, self._config.rounding)
            if (ids := which[name]) is not None and len(ids):
                tensors[f"rows.{name}"] = pack_rows(ids, self._num_rows[name])
            if bits < 32:
                num_pieces = -(-len(rows) // _PIECE) or 1
                for packed, piece in zip(codes.tensor_split(num_pieces), rows.tensor_split(num_pieces), strict=True):
                    error += float((unpack(packed, bits) - piece).norm(dim=1).sum(dtype=torch.float64))
        if not math.isfinite(error):
            raise NotFiniteError(
                f"checkpoint {chain[-1]}: rows are not finite in {bits} bits, whose scales are float16 below 8: "
                "training has diverged, or values exceed 65504. Give checkpoint.bits=32."
            )
        kept = {name: tensor for name, tensor in tensors.items() if tensor.numel()}
        sizes, manifest_bytes = self._store.write(chain, entry["samples_count"], kept)
        if chain == [0]:
            self.full_bytes += manifest_bytes  # a checkpoint of all rows in 32 bits has as many tensors
        entry["num_rows"] = num_rows = sum(map(len, tables.values()))
        entry["embedding_bytes"] = sum(size for name, size in sizes.items() if name.startswith(("codes.", "rows.")))
        entry["num_bytes"] = sum(sizes.values()) + manifest_bytes
        entry["restore_bytes"] = sum(self.taken[each]["num_bytes"] for each in chain)
        entry["mean_l2"] = error / max(num_rows, 1) if bits < 32 else None
        entry["disk_bytes"] = sum(self._kept_bytes.values()) + entry["num_bytes"]
        self._kept_bytes[chain[-1]] = entry["num_bytes"]
        self._remove_superseded(chain)
        entry["kept_bytes"] = sum(self._kept_bytes.values())
        entry["write_s"] = perf_counter() - began_s

    def _remove_superseded(self, chain: list[int]) -> None:
        """Remove the checkpoints that are not needed to restore any of the newest `keep` checkpoints.

        An increment is removed before its base. So if the process is killed meanwhile, no increment is left without
        its base. If removing fails, no more checkpoints are made.
        """
        self._chains.append(chain)
        keep = self._config.keep
        if not isinstance(keep, int):
            return
        needed = {index for each in self._chains[-keep:] for index in each}
        try:
            for index in sorted(self._kept_bytes.keys() - needed, reverse=True):
                self._store.remove(index)
                del self._kept_bytes[index]
        except OSError as error:
            self.error = error

    def _wait(self) -> None:
        """Wait until no checkpoint is being written; a checkpoint whose writing failed is removed from the list of
        checkpoints made."""
        pending, self._pending = self._pending, None
        try:
            if pending is not None:
                pending.result()
        except Exception as error:
            self.error = error
            del self.taken[-1]

    def _restore(self) -> None:
        """Continue the training loop from the newest checkpoint. Raises the error that kept this checkpoint from
        being written."""
        self._wait()
        if self.error is not None:
            raise self.error
        load_state(self._loop, self._store.read(self.taken[-1]["index"]), self._samples)
        self.num_restores += 1

    def finish(self) -> None:
        """Wait for the last checkpoint to be written, and measure the seconds that reading it back takes."""
        self._wait()
        self._thread.shutdown()
        try:
            began_s = perf_counter()
            if self.taken:
                self._store.read(self.taken[-1]["index"])
                self.restore_s = perf_counter() - began_s
        except Exception as error:
            self.error = self.error or error


def _owner(name: str) -> str:
    """Return the parameter to which an optimizer state belongs, from its name in a checkpoint; empty for other
    names."""
    kind, _, rest = name.partition(".")
    return rest.rpartition(".")[0] if kind == "state" else ""


def _copy_rows(tensor: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
    """Return a copy, on the CPU, of the `rows` of a tensor, or with None of the whole tensor."""
    if rows is None:
        return tensor.detach().to("cpu", copy=True)
    return tensor.detach().index_select(0, rows.to(tensor.device)).cpu()
