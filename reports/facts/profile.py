"""Profiles beside the logs, extra/profile.json, with labels and values for tables and charts."""

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
    """Return the different profiles in folders, at most _MAX_PROFILES."""
    found: list[ProfileRecord] = []
    for folder in islice(folders, _MAX_PROFILES):
        record = read_record(folder / PROFILE_FILE, ProfileRecord, [])
        if record is not None and record not in found:
            found.append(record)
    return tuple(found)


def bound_shares(record: ProfileRecord) -> tuple[tuple[Bound, float], ...]:
    """Return the share of a step's time that each bound (memory, compute …) limits, in the order of Bound."""
    shares = record.step.computed.bound_shares
    return tuple((name, share) for name in get_args(Bound) if (share := amount(shares.get(name))) is not None)


def phase_label(phase: PhaseRecord) -> str:
    """Return the label of a phase; where the file has none, 'top mlp fwd' for top_mlp_forward."""
    readable = phase.phase.replace("_forward", " fwd").replace("_backward", " bwd").replace("_", " ")
    return printable(phase.label or readable, 40)


def operator_name(operator: OperatorRecord) -> str:
    """Return the name of an operator without autograd's prefix."""
    return printable(operator.name, 60).removeprefix(_AUTOGRAD)


def operator_shapes(operator: OperatorRecord) -> str:
    """Return the shapes of an operator's inputs: '2×3, 3×4'."""
    return printable(", ".join("×".join(map(str, shape[:6])) for shape in operator.shapes[:8]), 80)


def amount(value: float | None) -> float | None:
    """Return a positive value that can be drawn and divided by, between 1e-15 and 1e25; else None."""
    return value if value is not None and 1e-15 < value < 1e25 else None
