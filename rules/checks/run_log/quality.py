"""Judge whether a log's run met the quality target, and whether the log states the outcome truthfully."""

from collections.abc import Iterator, Sequence

from rules.checks.rule import Problem, rule
from rules.checks.subject import LogSubject, applies_to_known, applies_to_ours
from rules.logs import keys
from rules.logs.log import LogLine, as_number, as_whole
from rules.logs.text import show
from rules.scoring.results import binding_target, evaluations_inside_run, met_outside

NOT_CONVERGED = "QU103"
"""Code of the rule on convergence, whose error is forgiven in one run of a result set: one run of the set may fail to
reach the target."""
_RESULTS = (
    'training_rules.adoc, "Run Results": "The clock may be stopped as soon as any part of the system determines \
target accuracy has been reached"'
)

_QUALITY = (
    'training_rules.adoc, "Quality measure": "Each run must reach a target quality level on the reference '
    'implementation quality measure"'
)
_BENCHMARK = (keys.SUBMISSION_BENCHMARK, keys.BENCHMARK_VERSION)
_READ = (keys.RUN_START, keys.RUN_STOP, keys.EVAL_ACCURACY, *_BENCHMARK)


def _target(subject: LogSubject) -> float | None:
    """Return the quality target that binds this log; None in the Open division of most official benchmarks, which has
    none."""
    return None if subject.benchmark is None else binding_target(subject.log, subject.benchmark)


def _stop(subject: LogSubject, status: str) -> LogLine | None:
    """Return the record of run_stop whose status is `status`; None where the log has none."""
    stop = subject.log.last(keys.RUN_STOP)
    return stop if stop is not None and stop.metadata.get(keys.STATUS) == status else None


@rule(
    "QU101",
    "run_stop must state how the run ended: success or aborted",
    source="compliance_checker training_*/common.yaml: run_stop has a status; success or aborted",
    remedy="End every run with run_stop and metadata status 'success' or 'aborted'.",
    requires={"ST101", "ST104"},
    reads=(keys.RUN_STOP,),
)
def status_is_known(subject: LogSubject) -> Iterator[Problem]:
    """run_stop's metadata holds status, which is success or aborted."""
    for line in subject.log.all(keys.RUN_STOP):
        status = line.metadata.get(keys.STATUS)
        if status not in (keys.SUCCESS, keys.ABORTED):
            yield Problem("run_stop has no known status", line, found=show(status), expected="'success' or 'aborted'")


@rule(
    "QU102",
    "a run with status success must have met its quality target",
    source=f"{_QUALITY}; compliance_checker closed_<benchmark>.yaml (ATLEAST_ONE_CHECK)",
    remedy="Train until an evaluation inside the run meets the target.",
    requires={"ST101", "ST104", "ST105", "ST107", "ST110", "QU101"},
    reads=_READ,
)
def success_means_met(subject: LogSubject) -> Iterator[Problem]:
    """A run of status success holds an evaluation inside the timed run that meets the target (and is at most 1); in
    this harness's logs it is the last one."""
    target, stop = _target(subject), _stop(subject, keys.SUCCESS)
    if target is None or stop is None:
        return
    evaluations = evaluations_inside_run(subject.log, subject.round)
    judged = evaluations[-1:] if subject.is_ours else evaluations
    if not any(target <= quality <= 1.0 for _, quality in judged):
        best = max((quality for _, quality in judged), default=None)
        yield Problem(
            "the run claims success without having met the target",
            judged[-1][0] if judged else stop,
            found=("no evaluation" if best is None else _apart(best, target))
            + (outside := _outside(subject, target)),
            expected=f"at least {target:.6g}" + (", at most 1" if best is not None and best > 1 else ""),
            remedy="Stamp run_start before and run_stop after what the run did; a log is never put right by hand."
            if outside
            else None,
        )


def _outside(subject: LogSubject, target: float) -> str:
    """Return a clause on the log's best evaluation outside the timed run that met the target, with the time by which
    it is outside; empty if there is no such evaluation."""
    start, stop = subject.log.first(keys.RUN_START), subject.log.last(keys.RUN_STOP)
    met = met_outside(subject.log, target, subject.round)
    if start is None or stop is None or met is None:
        return ""
    line, quality = met
    if line.time_ms < start.time_ms:
        where = f"stamped {start.time_ms - line.time_ms:.0f} ms before run_start"
    elif line.time_ms > stop.time_ms:
        where = f"stamped {line.time_ms - stop.time_ms:.0f} ms after run_stop"
    else:
        where = "written below run_stop"
    return f"; {_apart(quality, target)} is {where}"


def _count_others(evaluations: Sequence[tuple[LogLine, float]]) -> int:
    """Return the number of a run's evaluations after the first: each epoch_num counts once, and the first
    evaluation's epoch_num does not count."""
    epochs = [line.metadata.get(keys.EPOCH_NUM) for line, _ in evaluations]
    said = {as_number(epoch) for epoch in epochs} - {None, as_number(epochs[0])}
    return len(said) + sum(as_number(epoch) is None for epoch in epochs[1:])


def _apart(quality: float, target: float | None) -> str:
    """Return a quality as text with as many digits as distinguish it from the quality target."""
    short = f"{quality:.6g}"
    return repr(quality) if target is not None and quality != target and short == f"{target:.6g}" else short


@rule(
    NOT_CONVERGED,
    "the run must meet its quality target",
    source='training_rules.adoc, "Benchmark Results": "a single non-converging run may be treated as the slowest '
    'run"',
    remedy="Nothing, if no other run of its set failed: the run counts as the dropped slowest run. Else run again.",
    requires={"ST101", "ST104", "QU101"},
    reads=_READ,
)
def run_converged(subject: LogSubject) -> Iterator[Problem]:
    """A run did not end with the status aborted. A set may hold one such run: it counts as infinitely slow and is
    dropped as the slowest."""
    stop = _stop(subject, keys.ABORTED)
    if stop is None:
        return
    best = max((quality for _, quality in evaluations_inside_run(subject.log, subject.round)), default=None)
    target = _target(subject)
    reason = stop.metadata.get(keys.REASON)
    is_met = best is not None and target is not None and best >= target
    yield Problem(
        ("the run states aborted" if is_met else "the run did not converge")
        + (f" ({show(reason)})" if reason else ""),
        stop,
        found="status aborted"
        if is_met
        else "no evaluation"
        if best is None
        else f"best quality {_apart(best, target)}",
        expected="status success" if target is None or is_met else f"at least {target:.6g}",
    )


@rule(
    "QU104",
    "a run with status aborted must not have met its quality target",
    source=_QUALITY,
    remedy="Keep the log as the run wrote it.",
    requires={"ST101", "ST104", "ST105", "ST110", "QU101"},
    reads=_READ,
    applies=applies_to_known,
)
def aborted_means_not_met(subject: LogSubject) -> Iterator[Problem]:
    """Where an evaluation meets the target the run has succeeded; a log with status aborted contradicts itself."""
    target = _target(subject)
    if target is None or _stop(subject, keys.ABORTED) is None:
        return
    for line, quality in evaluations_inside_run(subject.log, subject.round):
        if quality >= target:
            yield Problem(
                "the target was met, yet the run is aborted", line, found=f"{quality:.6g}", expected="success"
            )
            return


@rule(
    "QU105",
    "the run must stop at the first evaluation that meets the quality target",
    source=_RESULTS,
    remedy="Stop the run at the first evaluation that meets the target.",
    requires={"ST101", "ST104", "ST105", "ST110"},
    reads=_READ,
    applies=applies_to_known,
)
def stops_when_met(subject: LogSubject) -> Iterator[Problem]:
    """The first evaluation that meets the target is the last: later training does not belong to the result. MLPerf's
    rules allow a run to stop at this evaluation but do not demand it, so in official logs a later evaluation is only
    a warning. In official logs of the Open division it is only reported (info), and it is no finding if the target
    does not bind that division. Evaluations of several ranks with one epoch_num count as one evaluation."""
    target = _target(subject)
    if target is None:
        return
    evaluations = evaluations_inside_run(subject.log, subject.round)
    met = next((i for i, (_, quality) in enumerate(evaluations) if target <= quality <= 1.0), None)
    if met is not None and (more := _count_others(evaluations[met:])) > 0:
        yield Problem(
            f"the target was met {more} evaluation{'s' if more > 1 else ''} before the run stopped",
            evaluations[met][0],
            found=f"{evaluations[met][1]:.6g}",
            expected="run_stop after it",
            severity="error" if subject.is_ours else "warning" if subject.is_closed else "info",
        )


@rule(
    "QU106",
    "training must not exceed the benchmark's maximum of epochs",
    source='training_rules.adoc, "Appendix: Benchmark Specific Rules": DLRM is trained for at most one epoch',
    remedy="Give up after the benchmark's maximum number of epochs.",
    requires={"ST101", "ST110"},
    reads=(keys.EVAL_ACCURACY, keys.TRAIN_SAMPLES, *_BENCHMARK),
    applies=applies_to_known,
)
def within_max_epochs(subject: LogSubject) -> Iterator[Problem]:
    """No evaluation is beyond the benchmark's maximum number of epochs, in Closed and in own benchmarks. Before round
    3.0 an evaluation beyond the maximum is only a warning, since logs count epochs in several ways. Logs of those
    rounds in which every epoch_num is whole are not judged, since they count evaluations."""
    if subject.benchmark is None or _target(subject) is None:
        return
    quality, samples = subject.benchmark.quality, as_number(subject.log.value(keys.TRAIN_SAMPLES))
    limit = quality.first_epoch_num + quality.max_epochs
    is_strict = subject.is_ours or subject.is_at_least("3.0")
    lines = subject.log.all(keys.EVAL_ACCURACY)
    if not is_strict and all(as_whole(line.metadata.get(keys.EPOCH_NUM)) is not None for line in lines):
        return
    for line in lines:
        epoch = as_number(line.metadata.get(keys.EPOCH_NUM))
        count = as_number(line.metadata.get(keys.SAMPLES_COUNT))
        if quality.convergence_unit == keys.SAMPLES_COUNT:
            epoch = count / samples if count is not None and samples is not None and samples > 0 else None
        if epoch is not None and epoch > limit + 1e-6:
            yield Problem(
                "evaluated beyond the last epoch",
                line,
                found=f"{epoch:.6g}",
                expected=f"at most {limit:.6g}",
                severity="error" if is_strict else "warning",
            )
            return


@rule(
    "QU107",
    "an aborted run must state the reason, and a successful run none",
    source="dlrmbench: run_stop of a run that did not converge names the reason",
    remedy="Keep the log as the run wrote it.",
    requires={"ST101", "ST104", "QU101"},
    reads=(keys.RUN_STOP,),
    applies=applies_to_ours,
)
def aborted_has_reason(subject: LogSubject) -> Iterator[Problem]:
    """run_stop of status aborted has a reason in its metadata; run_stop of status success has none."""
    stop = subject.log.last(keys.RUN_STOP)
    if stop is None:
        return
    reason = stop.metadata.get(keys.REASON)
    is_aborted = stop.metadata.get(keys.STATUS) == keys.ABORTED
    if is_aborted and not (isinstance(reason, str) and reason):
        yield Problem(
            "the run does not state why it was aborted", stop, found=show(reason), expected="metadata 'reason'"
        )
    if not is_aborted and reason is not None:
        yield Problem("a successful run gives a reason for aborting", stop, found=show(reason), expected="no reason")
