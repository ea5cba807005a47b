"""Reads profiles of training steps (extra/profile.json in a run set), and words their values for tables and
charts."""

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
    """Return the profiles of training steps recorded in folders, without duplicates. Only the first _MAX_PROFILES
    folders are read."""
    found: list[ProfileRecord] = []
    for folder in islice(folders, _MAX_PROFILES):
        record = read_record(folder / PROFILE_FILE, ProfileRecord, [])
        if record is not None and record not in found:
            found.append(record)
    return tuple(found)


def bound_shares(record: ProfileRecord) -> tuple[tuple[Bound, float], ...]:
    """Return pairs (limit, share). Limits are 'compute', 'memory', 'gather' and 'overhead'; a share is the fraction
    of a training step's time in the phases that the limit bounds. A limit without a known share is left out."""
    shares = record.step.computed.bound_shares
    return tuple((name, share) for name in get_args(Bound) if (share := amount(shares.get(name))) is not None)


def bound_name(limit: Bound) -> str:
    """Return the printed name of what limits phases of a training step: 'gather bandwidth'."""
    return "gather bandwidth" if limit == "gather" else limit


def phase_label(phase: PhaseRecord) -> str:
    """Return the printed name of a phase of a training step: the label in the profile or, if there is none, the
    phase's identifier made readable, such as 'top mlp fwd' for top_mlp_forward."""
    readable = phase.phase.replace("_forward", " fwd").replace("_backward", " bwd").replace("_", " ")
    return printable(phase.label or readable, 40)


def operator_name(operator: OperatorRecord) -> str:
    """Return the name of a profiled operator without autograd's prefix."""
    return printable(operator.name, 60).removeprefix(_AUTOGRAD)


def operator_shapes(operator: OperatorRecord) -> str:
    """Return the shapes of a profiled operator's inputs: '2×3, 3×4'."""
    return printable(", ".join("×".join(map(str, shape[:6])) for shape in operator.shapes[:8]), 80)


def amount(value: float | None) -> float | None:
    """Return the value if it is between 1e-15 and 1e25, so that charts can draw it and divide by it; None if it is
    not."""
    return value if value is not None and 1e-15 < value < 1e25 else None
