"""Judge properties that all published logs have and that a log changed by hand lacks."""

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache, partial
from itertools import cycle, pairwise

from rules.checks.rule import Problem, rule
from rules.checks.subject import LogSubject
from rules.logs import keys
from rules.logs.log import LogLine, as_number, as_whole
from rules.logs.text import show
from rules.scoring.results import count_epochs_trained, evaluations_inside_run

_PUBLISHED = "a rule of dlrmbench, not of MLPerf: of {} published logs of rounds 3.0 to 5.1, {}"
_THROUGHPUT_TOLERANCE = 0.02
_OF_EVALUATION = (keys.EVAL_START, keys.EVAL_ACCURACY, keys.EVAL_STOP)
_RUN = (keys.RUN_START, keys.RUN_STOP, keys.EVAL_ACCURACY)
_SHORTEST = 0.9
_FEWEST_INTERVALS = 4
_STOP_APART = 1e-3
_LARGEST_FALL, _MOST_FALLING = 0.0022, 0.4
_STRAIGHT = 1.9e-5
_MOST_STEPS = 10_000_000
"""Maximum number of steps per epoch that is tried when an epoch_num is explained as a fraction of an epoch."""


def _published_form(subject: LogSubject) -> str | None:
    if subject.is_ours or subject.benchmark is None:
        return "applies only to logs of known benchmarks that other harnesses wrote"
    return None if subject.is_at_least("3.0") else "logs before round 3.0 were written in too many ways"


def _published_closed(subject: LogSubject) -> str | None:
    reason = _published_form(subject)
    return reason if reason is not None or subject.is_closed else "the Open division may train in any way"


_rule = partial(rule, severity="warning", applies=_published_form)
_rule_of_closed = partial(
    rule, severity="warning", applies=_published_closed, requires={"ST101", "ST105"}, reads=_RUN
)


@_rule(
    "TI110",
    "the run's logged throughput must fit its time and its training samples",
    source=_PUBLISHED.format("890 HugeCTR", "tracked_stats fits within 0.5 % in all"),
    remedy="Ask for the log as it was written: its stamps or its tracked_stats were changed.",
    requires={"ST101", "ST107", "ST110"},
    reads=(keys.TRACKED_STATS, *_RUN, keys.SUBMISSION_BENCHMARK),
)
def throughput_fits(subject: LogSubject) -> Iterator[Problem]:
    """If a log states the throughput of the whole run, the throughput times the run's time (run_stop - run_start) is
    the number of samples trained, within 2 %. From round 3.0 on, HugeCTR logs this throughput in tracked_stats below
    run_stop. The number of samples trained is the dataset's size times the epochs of the last epoch_num."""
    log, benchmark = subject.log, subject.benchmark
    start, stop = log.first(keys.RUN_START), log.last(keys.RUN_STOP)
    if benchmark is None or start is None or stop is None:
        return
    of_run = [line for line in log.all(keys.TRACKED_STATS) if line.line_num > stop.line_num]
    stats = of_run[0].value if len(of_run) == 1 else None
    rate = as_number(stats.get("throughput")) if isinstance(stats, dict) else None
    epochs, size = count_epochs_trained(log, benchmark, subject.round), benchmark.data_samples(keys.TRAIN_SAMPLES)
    if rate is None or not epochs or not size:
        return
    ratio = rate * (stop.time_s - start.time_s) / (epochs * size)
    if abs(ratio - 1) > _THROUGHPUT_TOLERANCE:
        yield Problem(
            f"throughput x time is {ratio:.4g} of the samples trained",
            of_run[0],
            found=f"{rate:.6g} samples/s for {stop.time_s - start.time_s:.3f} s",
            expected=f"{epochs * size:.6g} samples",
        )


@_rule(
    "CA107",
    "every evaluation must log its start, quality and end, in this order",
    source=_PUBLISHED.format(780, "all that ran to their end keep this order"),
    remedy="Log eval_start, eval_accuracy and eval_stop of every evaluation, in this order.",
    requires={"ST101", "ST104"},
    reads=(*_OF_EVALUATION, keys.RUN_STOP),
)
def evaluations_begin_and_end(subject: LogSubject) -> Iterator[Problem]:
    """From round 3.0 on, eval_start, eval_accuracy and eval_stop follow one another in the file. Logs in which
    several ranks log evaluations are not judged."""
    lines = [line for line in subject.log.lines if line.key in _OF_EVALUATION]
    starts = {line.rank for line in lines if line.key == keys.EVAL_START}
    if len(starts) > 1 or any(a.key == b.key == keys.EVAL_START for a, b in pairwise(lines)):
        return
    stop = subject.log.last(keys.RUN_STOP)
    is_whole = stop is not None and stop.metadata.get(keys.STATUS) == keys.SUCCESS
    num = len(lines) % len(_OF_EVALUATION)
    wrong = next(((a, b) for a, b in zip(lines, cycle(_OF_EVALUATION), strict=False) if a.key != b), None)
    if wrong is not None:
        yield Problem(f"{wrong[0].key} where {wrong[1]} belongs", wrong[0], found=wrong[0].key, expected=wrong[1])
    elif is_whole and num:
        yield Problem("the last evaluation does not end", lines[-1], expected=", ".join(_OF_EVALUATION[num:]))


@_rule(
    "CA108",
    "epoch_num must count epochs in batches of the logged global_batch_size",
    source=_PUBLISHED.format(780, "epoch_num is a number of steps over FLOOR or CEIL(train_samples / batch) in all"),
    remedy="Show with which global_batch_size was trained; reference convergence points are chosen by it.",
    requires={"ST101", "ST105", "HP102"},
    reads=(keys.EVAL_ACCURACY, keys.GLOBAL_BATCH_SIZE, keys.TRAIN_SAMPLES),
)
def epochs_in_batches(subject: LogSubject) -> Iterator[Problem]:
    """From round 3.0 on, if each evaluation's epoch_num is a whole number of steps divided by the same number of
    steps per epoch, to the last digit, this number is train_samples / global_batch_size, rounded down or up."""
    log = subject.log
    batch, samples = as_whole(log.value(keys.GLOBAL_BATCH_SIZE)), as_whole(log.value(keys.TRAIN_SAMPLES))
    lines = [line for line in log.all(keys.EVAL_ACCURACY) if as_number(line.metadata.get(keys.EPOCH_NUM)) is not None]
    if not batch or not samples or len(lines) < _FEWEST_INTERVALS:
        return
    steps = 1
    for line in lines:
        epoch = float(line.metadata[keys.EPOCH_NUM])
        part = _part_of_epoch(epoch)
        steps = math.lcm(steps, part.denominator)
        if float(part) != epoch or steps > _MOST_STEPS:
            return
    other = -(-samples // steps)
    if 0.1 < other / batch < 10 and (samples // batch) % steps and -(-samples // batch) % steps:
        yield Problem(
            f"epoch_num counts {steps} steps in an epoch, as batches of {other} give",
            log.first(keys.GLOBAL_BATCH_SIZE),
            found=f"global_batch_size {batch}, which gives {samples // batch} or {-(-samples // batch)}",
            expected=f"about {other}",
        )


@lru_cache(maxsize=4096)
def _part_of_epoch(epoch: float) -> Fraction:
    """Return an epoch_num as the fraction of steps trained over steps per epoch; cached, since the runs of a result
    set evaluate at the same epoch_nums."""
    return Fraction(epoch).limit_denominator(_MOST_STEPS)


@_rule(
    "CA109",
    "no evaluation interval may be far shorter than all others of the run",
    source=_PUBLISHED.format(780, "the shortest takes at least 0.988 of the next in all"),
    remedy="Ask for the log as it was written: stamps of one interval were changed, or less was trained in it.",
    requires={"ST101", "ST103", "ST107", "TI109", "CA101"},
    reads=_RUN,
)
def intervals_alike(subject: LogSubject) -> Iterator[Problem]:
    """From round 3.0 on, of the times per epoch_num between evaluations, the shortest is at least 0.9 of the second
    shortest. An interval may be longer by chance, but no hardware is faster for a single interval."""
    start = subject.log.first(keys.RUN_START)
    points: dict[float, LogLine] = {}
    for line in subject.log.all(keys.EVAL_ACCURACY):
        if (epoch := as_number(line.metadata.get(keys.EPOCH_NUM))) is not None:
            points.setdefault(epoch, line)
    found = sorted(points.items())
    if start is None or len(found) < _FEWEST_INTERVALS:
        return
    before = [(2 * found[0][0] - found[1][0], start), *found]  # evaluation begins after the first interval
    per_epoch = [
        ((b[1].time_s - a[1].time_s) / (b[0] - a[0]), b[1], b[1].time_s - a[1].time_s) for a, b in pairwise(before)
    ]
    (shortest, line, took_s), (following, *_) = sorted(per_epoch, key=lambda each: each[0])[:2]
    if following > 0 and shortest < _SHORTEST * following:
        yield Problem(
            f"the interval takes {shortest / following:.3g} of the time that the next shortest takes",
            line,
            found=f"{took_s:.3f} s",
            expected=f"about {took_s * following / shortest:.3f} s" if shortest > 0 else "more than 0 s",
        )


@_rule_of_closed(
    "CA110",
    "run_stop must state the epoch_num of the run's last evaluation",
    source=_PUBLISHED.format(900, "run_stop names the last evaluation's epoch_num in 899, one is within 0.001"),
    remedy="Log in run_stop how far training had come; what was trained after the last evaluation is not the result.",
)
def stops_at_last_evaluation(subject: LogSubject) -> Iterator[Problem]:
    """From round 3.0 on, an epoch_num in run_stop equals the epoch_num of the last evaluation. A difference of up to
    0.001 is only reported (info)."""
    stop, evaluations = subject.log.last(keys.RUN_STOP), evaluations_inside_run(subject.log, subject.round)
    if stop is None or not evaluations:
        return
    last = evaluations[-1][0]
    reached, evaluated = (as_number(line.metadata.get(keys.EPOCH_NUM)) for line in (stop, last))
    if reached is not None and evaluated is not None and reached != evaluated:
        yield Problem(
            "run_stop is at another epoch_num than the last evaluation",
            stop,
            found=show(stop.metadata[keys.EPOCH_NUM]),
            expected=f"{show(last.metadata[keys.EPOCH_NUM])}, as in line {last.line_num}",
            severity="info" if abs(reached - evaluated) <= _STOP_APART else "warning",
        )


@_rule_of_closed(
    "QU109",
    "quality must not fall further or more often than in published runs",
    source=_PUBLISHED.format(
        900, "none falls by more than 0.0022 from one evaluation to the next, and at most 40 % of"
    )
    + " the steps fall",
    remedy="Ask for the log as it was written: its qualities are not those of one training.",
)
def quality_rises(subject: LogSubject) -> Iterator[Problem]:
    """From round 3.0 on, no ROC AUC is lower than the one before by more than 0.0022. In a log of at least four
    evaluations, at most 40 % are lower than the one before."""
    evaluations = evaluations_inside_run(subject.log, subject.round)
    falls = [(before - quality, line) for (_, before), (line, quality) in pairwise(evaluations) if quality < before]
    if not falls:
        return
    largest, line = max(falls, key=lambda fall: fall[0])
    if largest > _LARGEST_FALL:
        yield Problem(
            "the quality falls further than in any published log",
            line,
            found=f"{largest:.6f} lower than the evaluation before",
            expected=f"at most {_LARGEST_FALL:g} lower",
        )
    num_steps = len(evaluations) - 1
    if len(evaluations) >= _FEWEST_INTERVALS and len(falls) > _MOST_FALLING * num_steps:
        yield Problem(
            "the quality falls more often than in any published log",
            line,
            found=f"{len(falls)} of {num_steps} evaluations are lower than the one before",
            expected=f"at most {100 * _MOST_FALLING:.0f} % of them",
        )


@_rule_of_closed(
    "QU110",
    "quality must not change by equal amounts all through a run",
    source=_PUBLISHED.format(900, "second differences of the qualities reach 1.9e-5 in all"),
    remedy="Ask for the log as it was written: a training that meets its target flattens, and scatters.",
)
def quality_is_no_line(subject: LogSubject) -> Iterator[Problem]:
    """From round 3.0 on, for at least four evaluations, the differences between successive evaluations are not all
    the same within 1.9e-5."""
    evaluations = evaluations_inside_run(subject.log, subject.round)
    if len(evaluations) < _FEWEST_INTERVALS:
        return
    steps = [quality - before for (_, before), (_, quality) in pairwise(evaluations)]
    bend = max(abs(later - step) for step, later in pairwise(steps))
    if bend < _STRAIGHT:
        yield Problem(
            "the qualities lie on a straight line, as no training's do",
            evaluations[0][0],
            found=f"second differences of at most {bend:.2g}",
            expected=f"one of at least {_STRAIGHT:g}",
        )
