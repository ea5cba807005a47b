"""Judge whether the runs of a result set train about equally fast, as runs on one system do."""

from collections.abc import Iterator
from statistics import median

from rules.checks.rule import Problem, rule
from rules.checks.subject import SetSubject

_FASTER, _MUCH_FASTER = 0.018, 0.1
_FEWEST_RUNS = 3


def _published_form(subject: SetSubject) -> str | None:
    if subject.is_ours or subject.is_own:
        return "applies only to sets of known benchmarks that other harnesses made"
    return None if subject.is_at_least("3.0") else "logs before round 3.0 were written in too many ways"


@rule(
    "TI111",
    "no run may train clearly faster per epoch than the others of its set",
    source="a rule of dlrmbench, not of MLPerf: of 900 published runs of rounds 3.0 to 5.1, 898 take per epoch at "
    "most 1.8 % less than their set's median",
    remedy="Ask for the log as it was written, and for the hardware that this run was made on.",
    severity="info",
    applies=_published_form,
)
def runs_are_alike_fast(subject: SetSubject) -> Iterator[Problem]:
    """No run is much faster per epoch than the other runs of its set: from round 3.0 on, its time per epoch (time to
    train over epochs to converge) is at most 1.8 % below the set's median. On one system an epoch takes the same time
    in all runs, however many epochs a run needs. Only a time of more than 10 % below the median is a warning."""
    paces = [
        (run.time_to_train_s / run.epochs_to_converge, run)
        for run in subject.runs
        if run.time_to_train_s is not None and run.epochs_to_converge
    ]
    if len(paces) < _FEWEST_RUNS:
        return
    usual_s = median(pace_s for pace_s, _ in paces)
    for pace_s, run in paces:
        if pace_s < (1 - _FASTER) * usual_s:
            yield Problem(
                f"the run takes {100 * (1 - pace_s / usual_s):.1f} % less time per epoch than the set's median",
                run.path,
                found=f"{pace_s:.3f} s per epoch",
                expected=f"about {usual_s:.3f} s",
                severity="warning" if pace_s < (1 - _MUCH_FASTER) * usual_s else None,
            )
