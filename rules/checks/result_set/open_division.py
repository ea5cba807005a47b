"""Judge what MLPerf requires of a result in the Open division, whose runs may end by any criterion."""

from collections.abc import Iterator

from rules.checks.rule import Problem, rule
from rules.checks.subject import SetSubject
from rules.logs import keys


def _is_open(subject: SetSubject) -> str | None:
    if subject.is_ours or subject.benchmark is None:
        return "only official benchmarks demand a final quality"
    is_open = bool(subject.runs) and all(run.division == keys.OPEN for run in subject.runs)
    return None if is_open else "results of the Closed division have a target instead"


@rule(
    "QU108",
    "every run of an Open result must log its final quality",
    source='training_rules.adoc, "Quality measure": "the reported results must include the geometric mean of the '
    'final quality as measured by the closed quality measure"',
    remedy="Log eval_accuracy, by Closed's measure, when training has ended and before run_stop.",
    severity="warning",
    applies=_is_open,
)
def final_quality_is_said(subject: SetSubject) -> Iterator[Problem]:
    """The Open division may stop by any criterion, but must report the geometric mean of the final quality, which
    'score' and 'report' print. Every run has an evaluation between run_start and run_stop, and a quality above 0."""
    if subject.result.final_quality is None:
        lacking = [run for run in subject.runs if not run.final_quality or run.final_quality < 0]
        yield Problem(
            "no geometric mean of the final quality can be given",
            lacking[0].path,
            found=f"{len(lacking)} of {len(subject.runs)} runs without a final quality above 0",
            expected="eval_accuracy in every run",
        )
