"""Judge the times at which a result set's runs began and ended: overlapping runs, and pauses long enough for a run
that is not shown.

MLPerf's rules allow overlaps and pauses, but forbid choosing runs by their results. So the rules here only report
what a reviewer may ask about.
"""

from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from rules.checks.rule import Problem, rule
from rules.checks.subject import SetSubject
from rules.logs.text import plural
from rules.scoring.results import RunResult

_RESULTS = 'training_rules.adoc, "Scoring": if more than N runs were made, N that are consecutive in time count'
_MIN_GAPS = 2.0
"""Multiple of the runs' median time. A pause between two runs of at least this length is reported, since runs that
are not shown may have been made in it; ordinary pauses between jobs are shorter."""


def _spans(subject: SetSubject) -> list[tuple[float, float, RunResult]]:
    """Return, for each run, the begin of initialisation and the end in milliseconds since 1970, sorted by run_start;
    a run that occurs twice (RS103) counts once."""
    spans = {
        timed_ms[0]: (timed_ms[0] - (run.init_s or 0.0) * 1e3, timed_ms[1], run)
        for run in subject.runs
        if (timed_ms := run.timed_ms) is not None
    }
    return [spans[start_ms] for start_ms in sorted(spans)]


def _timed(subject: SetSubject) -> str | None:
    return None if len(_spans(subject)) > 1 else "fewer than two runs state their times"


@rule(
    "RS113",
    "runs of a set should not overlap in time",
    source=f"{_RESULTS}; parallel runs are allowed if they can be put in order",
    remedy="Make sure that the runs did not share hardware.",
    severity="info",
    applies=_timed,
)
def runs_do_not_overlap(subject: SetSubject) -> Iterator[Problem]:
    """No run starts before an earlier one has ended. Allowed where every run has hardware of its own. Runs of this
    harness share one system, so there it is a warning."""
    overlapping: list[RunResult] = []
    end_ms = -1.0
    for _, stop_ms, run in _spans(subject):
        if run.started_ms is not None and run.started_ms < end_ms:
            overlapping.append(run)
        end_ms = max(end_ms, stop_ms)
    if overlapping:
        yield Problem(
            "runs overlap in time",
            overlapping[0].path,
            found=f"{len(overlapping)} of {len(subject.runs)} runs start before an earlier one has ended",
            severity="warning" if subject.is_ours else None,
        )


@rule(
    "RS114",
    "no pause between runs of a set should be long enough for another run",
    source=_RESULTS,
    remedy="Be ready to show the logs of all runs that were made.",
    severity="info",
    applies=_timed,
)
def no_room_for_another(subject: SetSubject) -> Iterator[Problem]:
    """No pause between the runs of a set is long enough for another run: from the end of all earlier runs to the
    start of the next one, less than twice the median time of a run passes. A longer pause may hide a run that is not
    shown, or may just be a night. For sets of this harness, which may alternate the runs of two sets, the median
    pause is added to the limit."""
    spans = _spans(subject)
    usual_ms = median(stop_ms - start_ms for start_ms, stop_ms, _ in spans)
    if subject.is_ours:
        usual_ms += max(0.0, median(after[0] - before[1] for before, after in pairwise(spans)))
    gaps: list[tuple[float, RunResult]] = []
    end_ms = spans[0][1]
    for start_ms, stop_ms, run in spans[1:]:
        if start_ms - end_ms > _MIN_GAPS * usual_ms:
            gaps.append((start_ms - end_ms, run))
        end_ms = max(end_ms, stop_ms)
    if gaps:
        longest_ms, run = max(gaps, key=lambda gap: gap[0])
        yield Problem(
            "there was time for other runs",
            run.path,
            found=f"a gap of {longest_ms / 1e3:.0f} s before this run"
            + (f", and {plural(len(gaps) - 1, 'shorter one')}" if len(gaps) > 1 else ""),
            expected=f"less than {_MIN_GAPS:g} times a run's {usual_ms / 1e3:.0f} s"
            + (", its usual pause included" if subject.is_ours else ""),
        )
