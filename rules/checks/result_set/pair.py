"""Judge whether the runs of the two sets of an A/B pair alternated in time, as the pair's experiment.json states."""

import re
from collections.abc import Iterator
from pathlib import Path

from rules.checks.result_set.records import damage_problem
from rules.checks.rule import Problem, rule
from rules.checks.subject import SetSubject
from rules.errors import InputError
from rules.logs import keys
from rules.logs.log import RunLog, read_log
from rules.logs.text import plural, printable
from rules.records.codec import Damage
from rules.records.experiment import Group, read_group
from rules.tree.result_set import leads_out

_RESULT = re.compile(r"result_(\d{1,6})\.txt\Z")
_MAX_RUNS = 1000
"""Maximum number of runs that are read from the other set of an A/B pair: more than anybody makes in one set."""
Span = tuple[float, float, str, int]
"""Run of an A/B pair: its begin and end in milliseconds since 1970, the name of its set's folder, and its number in
the set."""


def _side(subject: SetSubject) -> tuple[Path, Group] | None:
    """Return the folder of the result set, and the A/B pair that it belongs to; None for a result set of no pair. The
    pair's experiment.json may be damaged."""
    if subject.result_set.root is None:
        return None
    root = subject.result_set.root.absolute()
    group = read_group(root.parent)
    if group is None or not group.holds(root.name) or not (group.is_pair or isinstance(group.record, Damage)):
        return None
    return root, group


def _of_a_pair(subject: SetSubject) -> str | None:
    return None if _side(subject) is not None else "the set is no part of a pair that was measured alternately"


@rule(
    "RS120",
    "runs of two sets measured as a pair must alternate",
    source="a rule of dlrmbench, not of MLPerf, based on experiment.json beside sets that 'run --beside' makes",
    remedy="Compare the two sets as measured one after the other, or make a new pair with 'dlrmbench versus'.",
    severity="warning",
    applies=_of_a_pair,
)
def runs_alternate(subject: SetSubject) -> Iterator[Problem]:
    """If experiment.json states that two sets (a pair) were measured alternately, the stamps of their logs confirm
    it. Run k of one set and run k of the other do not overlap, and no other run of the pair begins between them.
    Comparisons decide by the stamps alone, whatever experiment.json states."""
    side = _side(subject)
    assert side is not None
    root, group = side
    if isinstance(group.record, Damage):
        yield damage_problem(group.record, "warning")
        return
    other = next((name for name in group.record.folders if name and name != root.name), "")
    logs, shown = _logs_of(root.parent / other) if other else (), printable(other)
    spans = sorted([*_spans(subject.logs, root.name), *_spans(logs, other)])
    both = {number for *_, side, number in spans if side == other}
    own = [number for *_, side, number in spans if side == root.name]
    if not both:
        yield Problem(
            "the other side of the pair has no run",
            group.file,
            found=f"no log in {shown}/" if other else "no folder of another side",
            expected="a run beside each run",
        )
        return
    apart = [number for number in own if number in both and not _follow(spans, number)]
    if apart:
        yield Problem(
            "the runs of the pair did not alternate",
            root / "extra",
            found=f"{len(apart)} of {plural(len(own), 'run')} made apart from {shown}/'s, the first is {apart[0]}",
            expected="run k of both sides one after the other",
        )


def _follow(spans: list[Span], number: int) -> bool:
    """Return whether the two runs numbered `number`, one in each set of an A/B pair, are neighbours in time, and do
    not overlap."""
    first, second, *more = [position for position, span in enumerate(spans) if span[3] == number]
    return not more and second == first + 1 and spans[first][1] <= spans[second][0]


def _spans(logs: tuple[RunLog, ...], side: str) -> Iterator[Span]:
    for log in logs:
        start, stop = log.first(keys.RUN_START), log.last(keys.RUN_STOP)
        match = _RESULT.match(Path(log.path).name)
        if match is not None and start is not None and stop is not None:
            yield start.time_ms, stop.time_ms, side, int(match[1])


def _logs_of(folder: Path) -> tuple[RunLog, ...]:
    """Return the logs in the folder of the other set of an A/B pair; links that lead out of the folder are not
    followed."""
    try:
        paths = sorted(folder.glob("results/*/*/result_*.txt"))[:_MAX_RUNS]
        return tuple(read_log(path) for path in paths if path.is_file() and not leads_out(path, folder))
    except (OSError, InputError):
        return ()
