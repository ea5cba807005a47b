"""Profiles beside the logs, extra/profile.json, and which of their numbers tables and charts may use."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import get_args

from reports.results.records import read_record
from reports.text.formatting import printable
from rules.records.profile import Bound, OperatorRecord, PhaseRecord, ProfileRecord

PROFILE_FILE = Path("extra") / "profile.json"
_MAX_PROFILES = 20
_AUTOGRAD = "autograd::engine::evaluate_function: "


def read_profiles(folders: Iterable[Path]) -> tuple[ProfileRecord, ...]:
    """The profiles of these folders, different ones only, at most _MAX_PROFILES."""
    found: list[ProfileRecord] = []
    for folder in islice(folders, _MAX_PROFILES):
        record = read_record(folder / PROFILE_FILE, ProfileRecord, [])
        if record is not None and record not in found:
            found.append(record)
    return tuple(found)


def bound_shares(record: ProfileRecord) -> tuple[tuple[Bound, float], ...]:
    """What bounds how much of a step's time, in the order of Bound."""
    shares = record.step.computed.bound_shares
    return tuple((name, share) for name in get_args(Bound) if (share := amount(shares.get(name))) is not None)


def phase_label(phase: PhaseRecord) -> str:
    """Its label; 'top mlp fwd' of top_mlp_forward where the file has none."""
    readable = phase.phase.replace("_forward", " fwd").replace("_backward", " bwd").replace("_", " ")
    return printable(phase.label or readable, 40)


def operator_name(operator: OperatorRecord) -> str:
    """Its name without autograd's prefix."""
    return printable(operator.name, 60).removeprefix(_AUTOGRAD)


def operator_shapes(operator: OperatorRecord) -> str:
    """'2×3, 3×4': the shapes of its inputs."""
    return printable(", ".join("×".join(map(str, shape[:6])) for shape in operator.shapes[:8]), 80)


def amount(value: float | None) -> float | None:
    """A positive number as computers have them: beyond 1e-15 to 1e25 nothing is drawn or divided."""
    return value if value is not None and 1e-15 < value < 1e25 else None
