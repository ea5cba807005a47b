"""Small sequence logs and batches of sequences for tests of models that read histories."""

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

from harness.config.catalog import WorkloadConfig, parse_workload
from reference_models.hstu.config import HSTUConfig
from reference_models.hstu.sequences import Sequences
from rules.benchmarks.loader import load_benchmark, parse_benchmark, read_toml

CONFIG = HSTUConfig(
    embedding_dim=6, num_layers=2, num_heads=2, attention_dim=4, item_mlp=5, head_mlp=7, max_sequence_length=12
)
SMALL: dict[str, dict[str, Any]] = {
    "model": {"embedding_dim": 8, "attention_dim": 4, "item_mlp": 8, "head_mlp": 8, "max_sequence_length": 16},
    "data": {"name": "few_events", "train_samples": 1536, "eval_samples": 256, "num_embeddings": [80, 64, 16]},
    "parameters": {"events_per_window": 4},
    "train": {"global_batch_size": 128},
}
"""dlrmv4_small with 64 users and 16 artists, six windows of four events to train on, one to evaluate."""


def make_batch(
    past_lengths: Sequence[int], lengths: Sequence[int], *, num_items: int = 9, num_artists: int = 4, seed: int = 0
) -> Sequences:
    """Make sequences of random items, artists and actions."""
    generator = torch.Generator().manual_seed(seed)
    num_past, num_candidates = sum(past_lengths), sum(lengths)
    return Sequences(
        past_items=torch.randint(num_items, (num_past,), generator=generator),
        past_artists=torch.randint(num_artists, (num_past,), generator=generator),
        past_actions=torch.randint(2, (num_past,), generator=generator),
        past_ages=torch.cat([torch.arange(length, 0, -1) for length in past_lengths]),
        past_lengths=tuple(past_lengths),
        items=torch.randint(num_items, (num_candidates,), generator=generator),
        artists=torch.randint(num_artists, (num_candidates,), generator=generator),
        lengths=tuple(lengths),
        labels=torch.randint(2, (num_candidates,), generator=generator).float(),
    )


def small_tables(**changed: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of a definition like dlrmv4_small with few events; `changed` by section, or parameters."""
    tables = deepcopy(read_toml(load_benchmark("dlrmv4_small").path))
    tables["benchmark"]["name"] = "few_events"
    for made in (SMALL, changed):
        for section, values in made.items():
            table = tables["data"]["parameters"] if section == "parameters" else tables[section]
            table |= values
            tables["closed"] |= {key: value for key, value in values.items() if key in tables["closed"]}
    tables["data"].pop("sha256", None)
    tables["closed"]["global_batch_size"] = "free"
    return tables


def small_workload(**changed: dict[str, Any]) -> WorkloadConfig:
    """Parse the small definition's workload."""
    benchmark = parse_benchmark(small_tables(**changed), Path("few_events.toml"))
    return parse_workload(benchmark, benchmark.sections)
