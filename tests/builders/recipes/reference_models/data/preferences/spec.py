"""Generated preferences: each user likes the items whose number has the same parity as their own, more or less."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from reference_models.config.records import read_section
from reference_models.config.sections import DataConfig
from reference_models.data.spec import DataSpec
from reference_models.data.store.generate import Parts, Piece
from reference_models.data.store.layout import SPLITS
from reference_models.data.store.store import Chunk

_CHUNK_SAMPLES = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class PreferenceParameters:
    """[data.parameters] of generated preferences."""

    agreement: Annotated[float, Meta(ge=0, le=1)]
    """Chance of a click where parities are equal, and of none where they are not."""


def draw_chunk(data: DataConfig, split: str, start: int) -> tuple[Chunk, NDArray[np.float64]]:
    """Draw the samples of one chunk, and the chance of a click of each: float64 [n]."""
    made = read_section("data.parameters", data.parameters, PreferenceParameters)
    rng = np.random.default_rng((data.seed or 0, SPLITS.index(split), start))
    size = min(_CHUNK_SAMPLES, num_samples(data, split) - start)
    ids = np.stack([rng.integers(0, rows, size, dtype=np.int32) for rows in data.num_embeddings or ()], axis=1)
    chances = np.where(ids[:, 0] % 2 == ids[:, 1] % 2, made.agreement, 1 - made.agreement)
    labels = (rng.random(size) < chances).astype(np.uint8)
    return Chunk(labels=labels, dense=np.zeros((size, data.num_dense), np.float32), indices=ids), chances


def num_samples(data: DataConfig, split: str) -> int:
    """Return the samples of a split."""
    return (data.train_samples if split == "train" else data.eval_samples) or 0


def make_parts(data: DataConfig) -> Parts:
    """Make both splits, a chunk a task."""

    def make(task: tuple[str, int]) -> Iterator[Piece]:
        yield *task, draw_chunk(data, *task)[0]

    return Parts(
        ((split, start) for split in SPLITS for start in range(0, num_samples(data, split), _CHUNK_SAMPLES)), make
    )


def oracle_scores(data: DataConfig, split: str) -> tuple[Any, Any]:
    """Return the chance of a click and whether it was one, of every sample: float64 [N] and uint8 [N]."""
    chunks = [draw_chunk(data, split, start) for start in range(0, num_samples(data, split), _CHUNK_SAMPLES)]
    return np.concatenate([chances for _, chances in chunks]), np.concatenate([chunk.labels for chunk, _ in chunks])


SPEC = DataSpec(
    example="dlrm_tiny",
    parameters=PreferenceParameters,
    check=lambda data: read_section("data.parameters", data.parameters, PreferenceParameters),
    generate=make_parts,
    oracle=oracle_scores,
)
