"""sweep.json: a matrix of configurations; each is an ordinary run set in its folder beside this file."""

from typing import Annotated, Any

from msgspec import Meta

from rules.records.codec import Document, Index, Int64, PositiveCount, Record, require
from rules.records.run_set import Kind, Options


class AxisRecord(Record, frozen=True, kw_only=True):
    """What is varied, with its values as they were written."""

    key: str
    values: Annotated[tuple[str, ...], Meta(min_length=1)]


class FailureRecord(Record, frozen=True, kw_only=True):
    """Why a configuration has no complete results."""

    reason: str
    exit_code: Int64
    run_index: Index | None


class ConfigurationRecord(Record, frozen=True, kw_only=True):
    """One point of the matrix."""

    label: str
    values: dict[str, str]
    folder: str | None
    """None where it failed before it had one."""
    failure: FailureRecord | None
    profile_failure: str | None
    """Why there is no profile of it."""


class SweepRecord(Document, frozen=True, kw_only=True):
    """A matrix of configurations, measured interleaved with shared seeds."""

    name: str
    created_utc: str
    harness_version: str
    command: str
    kind: Kind
    options: Options
    num_runs: PositiveCount
    base_seed: Annotated[int, Meta(ge=0, description="All configurations derive the seed of run i from it.")]
    with_profile: bool
    """Whether each configuration is profiled once after all runs."""
    with_fit: bool = False
    """Whether a law of quality over computed FLOP is fitted to all configurations."""
    axes: Annotated[tuple[AxisRecord, ...], Meta(min_length=1)]
    configurations: Annotated[tuple[ConfigurationRecord, ...], Meta(min_length=1)]

    @classmethod
    def upgrade(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Version 1 said the kind by `mode` and `throughput_steps`; its first sweeps knew no profiles."""
        mode, found = content.get("mode"), content.get("configurations")
        require(mode in ("to_target", "throughput"), "mode", mode, '"to_target" or "throughput"')
        steps = content.get("throughput_steps")
        expected = "a whole number of at least 1 or null"
        require(steps is None or (type(steps) is int and steps >= 1), "throughput_steps", steps, expected)
        if isinstance(found, list):
            found = [{"profile_failure": None} | point if isinstance(point, dict) else point for point in found]
        kind = "throughput" if mode == "throughput" else "training"
        options = {} if steps is None else {"num_steps": steps}
        return {"with_profile": False} | content | {"kind": kind, "options": options, "configurations": found}
