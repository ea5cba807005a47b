"""Compares the speed of a machine with the speeds of reference systems on which the same configuration was measured.

Benchmark definition, kind of measurement, implementation, precision and every other setting must be equal. The only
exception is the number of threads, which is shown. Speeds in samples/s are compared instead of times to train,
because times to train differ by several percent between seeds.

A ratio of two speeds is shown only if it exceeds TOLERANCE. The reason is that the mean speed of a result set
deviates from the machine's long-run mean: by up to 8 % in sets of one machine that were measured an hour apart. If
both means deviate with a standard deviation of 8 %, a ratio above TOLERANCE arises by chance in one of fifty cases.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reports.comparison.comparison import compare_pairs
from reports.comparison.drift_tolerance import REFERENCE_DRIFT
from reports.comparison.sources import read_results
from reports.results.reference_systems import (
    known_bundles,
    open_system,
    passing_systems,
    require_references,
    system_of,
)
from reports.results.result import Result
from reports.text.formatting import percent, plural, printable
from rules.errors import InputError
from rules.records.codec import Damage, decode
from rules.records.run_set import RunSetRecord

TOLERANCE = REFERENCE_DRIFT
"""Drift tolerance between result sets measured on different machines at different times, as a fraction of the ratio
of their speeds: the tolerance that the command `compare` uses."""
MAX_SYSTEMS = 20
"""Maximum number of reference bundles (.zip archives of other systems' results) that a result set is compared with
after a run."""
_SPEED = "throughput"
_THREADS = "runtime.threads"

Told = Literal["faster", "slower", "about as fast", "not told"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Comparison of the speed of a result set with that of a reference system. `ratio` is the training samples/s of
    the set divided by those of the reference system. It is None if no difference is shown. This is so if the speeds
    differ by no more than the drift tolerance, or if one of the two sets is too noisy."""

    system: str
    machine: str
    told: Told
    ratio: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Return a result set's speed relative to a reference system in one line of text: '0.60 times the samples/s
        of box (…): slower, beyond the 30 % allowed for drift …'."""
        of = f"{self.system} ({self.machine})"
        within = f"the {percent(TOLERANCE, 0)} allowed for drift between machines and hours"
        notes = "".join(f"; {note}" for note in self.notes)
        if self.ratio is not None:
            return f"{self.ratio:.2f} times the samples/s of {of}: {self.told}, beyond {within}{notes}"
        if self.told == "about as fast":
            return f"about as fast as {of}: within {within}{notes}"
        return f"not shown to be faster or slower than {of}: one of the two sets is too noisy{notes}"


def find_standings(result: Result, folder: Path | None = None) -> tuple[Standing, ...]:
    """Compare the speed of a result set of this harness with every known reference bundle (.zip of another system's
    results) of the same configuration. Bundles are also looked for in `folder`."""
    if result.asked is None or result.place is None or system_of(result) is not None:
        return ()
    found = list[Standing]()
    for path in known_bundles(folder)[:MAX_SYSTEMS]:
        try:
            with passing_systems():
                for theirs in _read_alike(result, path):
                    require_references([theirs])
                    found.append(stand(result, theirs, system_of(theirs) or path.stem))
        except (InputError, OSError):
            continue
    return tuple(found)


def _read_alike(result: Result, path: Path) -> list[Result]:
    """Read result sets in a reference bundle (.zip of a system's results): those whose requested configuration equals
    that of `result`. Other sets are not judged."""
    assert result.asked is not None
    records = sorted(open_system(path).folder.glob("*/extra/run_set.json"))
    decoded = ((place, decode(place, RunSetRecord)) for place in records)
    alike = (place for place, record in decoded if not isinstance(record, Damage) and is_alike(result.asked, record))
    return [each for place in alike for each in read_results(place.parents[1])]


def is_alike(mine: RunSetRecord, theirs: RunSetRecord) -> bool:
    """Return whether two run sets had the same requested configuration, apart from the number of threads."""
    about = ((each.kind, each.options, each.benchmark, each.division) for each in (mine, theirs))
    values = ({key: given.value for key, given in each.config.items() if key != _THREADS} for each in (mine, theirs))
    return len({repr(each) for each in about}) == 1 and next(values) == next(values)


def stand(mine: Result, theirs: Result, system: str) -> Standing:
    """Compare the speed of a result set with that of a reference system's set of the same configuration."""
    (comparison,) = compare_pairs([(theirs, mine)], is_described=False)
    speed = next((factor for factor in comparison.factors if factor.name == _SPEED), None)
    ratio = None if speed is None else speed.ratio
    told: Told = "not told"
    if speed is not None and speed.verdict in ("faster", "slower"):
        told = "faster" if speed.verdict == "faster" else "slower"
    elif ratio is not None and abs(math.log(ratio)) <= math.log1p(TOLERANCE):
        told = "about as fast"
    return Standing(
        system=printable(system, 60),
        machine=describe_machine(theirs),
        told=told,
        ratio=ratio if told in ("faster", "slower") else None,
        notes=_notes(mine, theirs),
    )


def describe_machine(result: Result) -> str:
    """Return as text the machine on which a result set was measured, as far as recorded: 'AMD EPYC, AuthenticAMD
    family 25 model 1, 2 cores, 2 threads'."""
    asked = result.asked
    fields = dict(result.hardware) if asked is None else asked.system.fields
    accelerators, cores = fields.get("accelerator_model_name", ""), fields.get("host_processor_core_count", "")
    parts = [fields.get("host_processor_model_name", "")]
    if asked is not None and asked.environment.get("processor"):
        parts.append(str(asked.environment["processor"]))
    parts += [f"{cores} cores"] if cores else []
    parts += [accelerators] if accelerators and accelerators.upper() != "N/A" else []
    parts += [plural(asked.num_threads, "thread")] if asked is not None else []
    return printable(", ".join(part for part in parts if part), 160)


def _notes(mine: Result, theirs: Result) -> tuple[str, ...]:
    notes = []
    if mine.asked and theirs.asked and mine.asked.num_threads != theirs.asked.num_threads:
        notes.append(f"{plural(mine.asked.num_threads, 'thread')} here")
    if mine.codes and theirs.codes and mine.codes != theirs.codes:
        notes.append("other code of dlrmbench")
    return tuple(notes)


def strip_text(standings: Sequence[Standing]) -> str:
    """Draw the ratios of a result set's speed to the speeds of reference systems on one line of text, from 1/4 to 4;
    '#' marks the drift tolerance."""
    cells = ["-"] * 41
    for place in range(41):
        if abs(_ratio_at(place)) <= math.log1p(TOLERANCE):
            cells[place] = "#"
    for standing in standings:
        if standing.ratio is not None:
            cells[_place_of(standing.ratio)] = "o"
    return f"1/4{''.join(cells)}4x"


def _ratio_at(place: int) -> float:
    return (place - 20) / 20 * math.log(4)


def _place_of(ratio: float) -> int:
    return max(0, min(40, round(20 + 20 * math.log(ratio) / math.log(4))))
