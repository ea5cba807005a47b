"""Judge the cadence of a log: the frequency of evaluations, and the agreement of training blocks, evaluations and
sample counts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

from rules.benchmarks.loader import Quality
from rules.benchmarks.rounds import is_before
from rules.checks.rule import Problem, rule
from rules.checks.subject import LogSubject, applies_to_ours
from rules.logs import keys
from rules.logs.log import LogLine, as_number, as_whole
from rules.logs.text import show
from rules.scoring.results import dataset_samples

_EVALUATION = (
    'training_rules.adoc, "Quality measure": an evaluation every FLOOR(TOTAL_TRAINING_SAMPLES / '
    "(GLOBAL_BATCH_SIZE * NUM_EVAL)) iterations (the rule's text says "
    '"samples", but the formula gives iterations)'
)
_OFF_BY_STEPS = 2
"""Number of training steps by which an interval between evaluations may differ from the interval that the rule
demands: some implementations count a step at its start, others at its end."""
_MATERIAL = 0.02
"""Deviation of an interval between evaluations from the interval that the rule demands, as a fraction, up to which
the difference is only a warning."""
_CYCLE = (keys.BLOCK_START, keys.BLOCK_STOP, keys.TRACKED_STATS, keys.EVAL_START, keys.EVAL_ACCURACY, keys.EVAL_STOP)
_IN_CYCLE = frozenset(_CYCLE)
_SCHEDULED = _IN_CYCLE | {keys.RUN_STOP}
_OF_PROGRESS = (
    keys.EPOCH_START,
    keys.EPOCH_STOP,
    keys.EVAL_START,
    keys.EVAL_STOP,
    keys.EVAL_ACCURACY,
    keys.BLOCK_STOP,
)
_SIZES = (keys.TRAIN_SAMPLES, keys.GLOBAL_BATCH_SIZE)
_TOLERANCE = 1e-9
_APART_MS = 1e3
"""Milliseconds between two records with the same epoch_num above which they count as two evaluations, if this is more
than the fraction _APART of the run. After a shorter delay the later record may be another rank's of the same
evaluation."""
_APART = 0.1
"""Fraction of a run. Two records with the same epoch_num count as two evaluations if they are farther apart than
this, and than _APART_MS milliseconds."""


def _closed_of_others(subject: LogSubject) -> str | None:
    if subject.is_ours:
        return "CA104 judges evaluation intervals exactly"
    if subject.benchmark is None:
        return "no definition of the benchmark is known"
    return None if subject.is_closed else "the Open division leaves the frequency of evaluation free"


@rule(
    "CA101",
    "evaluations must come as often as the benchmark says",
    source=_EVALUATION,
    remedy="Evaluate every FLOOR(train_samples / (global_batch_size * evaluations per epoch)) iterations.",
    requires={"ST101", "ST103", "ST105", "HP102"},
    reads=(keys.EVAL_ACCURACY, *_SIZES),
    applies=_closed_of_others,
)
def evaluation_frequency(subject: LogSubject) -> Iterator[Problem]:
    """In Closed a model is evaluated at fixed intervals. Less frequent evaluations save time and hide at which point
    the target was met; more frequent ones find that point earlier.

    - An interval may differ from the fixed one by 2 steps, since implementations count differently. A larger
      difference is a warning up to 2 %, and an error above.
    - The last interval of an epoch may be shorter.
    - Before round 3.0 any difference is only a warning if every epoch_num is whole, since such logs count
      evaluations, not epochs.
    - From round 3.0 on, it is an error if an evaluation repeats the epoch_num or samples_count of one that was more
      than a tenth of the run earlier. One that follows sooner may be the same evaluation, logged by another rank.
    """
    benchmark = subject.benchmark
    assert benchmark is not None
    samples, batch = (
        dataset_samples(subject.log, benchmark, subject.round),
        as_whole(subject.log.value(keys.GLOBAL_BATCH_SIZE)),
    )
    if not samples or not batch:
        return
    expected = benchmark.steps_between_evals(samples, batch)
    points: dict[float, LogLine] = {}
    lines = sorted(subject.log.all(keys.EVAL_ACCURACY), key=lambda record: record.time_ms)
    again: list[LogLine] = []
    for line in lines:
        if (epoch := _epoch(line, samples, benchmark.quality)) is not None:
            apart_ms = line.time_ms - points.setdefault(epoch, line).time_ms
            if apart_ms > max(_APART_MS, _APART * (lines[-1].time_ms - lines[0].time_ms)):
                again.append(line)
    if len(again) > 1 and subject.is_at_least("3.0"):
        yield _not_apart(again, keys.EPOCH_NUM if keys.EPOCH_NUM in again[0].metadata else keys.SAMPLES_COUNT)
    steps_per_epoch = samples / batch
    begin = benchmark.first_eval_samples(samples, batch) / samples - expected / steps_per_epoch
    wrong: list[tuple[LogLine, float]] = []
    for before, (epoch, line) in zip([begin, *points], points.items(), strict=False):
        steps = (epoch - before) * steps_per_epoch
        ends_epoch = abs(epoch - round(epoch)) * steps_per_epoch <= expected and epoch >= 0.5
        if abs(steps - expected) > _OFF_BY_STEPS and not (ends_epoch and 0 < steps < expected):
            wrong.append((line, steps))
    if not wrong:
        return
    line, steps = max(wrong, key=lambda record: abs(record[1] - expected))
    counts_evals = subject.is_official and not subject.is_at_least("3.0") and all(map(float.is_integer, points))
    is_material = abs(steps - expected) > _MATERIAL * expected and not counts_evals
    yield Problem(
        f"{len(wrong)} of {len(points)} evaluations do not come after the interval that the rule gives",
        line,
        found=f"{steps:.0f} iterations ({steps / steps_per_epoch:.4f} epoch) since the evaluation before",
        expected=f"{expected} iterations ({expected / steps_per_epoch:.4f} epoch)",
        severity="error" if is_material else "warning",
    )


def _not_apart(again: Sequence[LogLine], unit: str) -> Problem:
    return Problem(
        f"{len(again)} evaluations are at the place of an earlier one",
        again[0],
        found=f"{unit} {show(again[0].metadata[unit])} again",
        expected="a place of its own for each evaluation",
    )


def _epoch(line: LogLine, samples: int, quality: Quality) -> float | None:
    """Return the epochs trained according to a log line's metadata, counted from 0; None where the line states
    none."""
    epoch = as_number(line.metadata.get(keys.EPOCH_NUM))
    if epoch is None or quality.convergence_unit == keys.SAMPLES_COUNT:
        count = as_number(line.metadata.get(keys.SAMPLES_COUNT))
        return None if count is None else count / samples
    return epoch - quality.first_epoch_num if epoch >= quality.first_epoch_num else epoch


@rule(
    "CA102",
    "epochs, blocks and evaluations must state how far training has come",
    source="compliance_checker training_*/common.yaml: epoch_num, samples_count, first_epoch_num, epoch_count",
    remedy="Give epoch_num (a fraction of the epoch) or samples_count in the metadata.",
    requires={"ST101", "ST103"},
    reads=(*_OF_PROGRESS, keys.BLOCK_START),
)
def progress_metadata(subject: LogSubject) -> Iterator[Problem]:
    """Records of epochs, blocks and evaluations state how far training has come, as a number epoch_num or
    samples_count. eval_accuracy states the one that the benchmark's reference convergence points use: samples_count
    for dlrmv4, epoch_num for all others. In official logs samples_count is accepted from round 4.0 on (round 3.1 used
    step_num), and in epoch_start and epoch_stop from round 5.0 on."""
    allowed = _progress_of(subject)
    for key in _OF_PROGRESS:
        wanted = allowed.get(key, (keys.EPOCH_NUM, keys.SAMPLES_COUNT))
        for line in subject.log.all(key):
            yield from _named(line, wanted)
    of_block = allowed.get(keys.BLOCK_START, (keys.SAMPLES_COUNT,))
    for line in subject.log.all(keys.BLOCK_START):
        count = as_number(line.metadata.get(keys.EPOCH_COUNT))
        if keys.EPOCH_COUNT in line.metadata:
            if count is None or count <= 0:
                yield Problem("epoch_count is no positive number", line, found=show(line.metadata[keys.EPOCH_COUNT]))
            yield from _named(line, (keys.FIRST_EPOCH_NUM,))
        else:
            yield from _named(line, of_block)


def _progress_of(subject: LogSubject) -> Mapping[str, tuple[str, ...]]:
    """Return a map from events (such as epoch_start) to the metadata keys that may state their training progress. An
    event that the map lacks uses the usual keys, epoch_num or samples_count."""
    block_stop: tuple[str, ...] = (keys.FIRST_EPOCH_NUM, keys.SAMPLES_COUNT)
    allowed: dict[str, tuple[str, ...]] = {keys.BLOCK_STOP: block_stop}
    if subject.is_official and is_before(subject.round, "5.0"):
        allowed |= dict.fromkeys((keys.EPOCH_START, keys.EPOCH_STOP), (keys.EPOCH_NUM,))
    if subject.is_official and is_before(subject.round, "4.0"):
        other = (keys.STEP_NUM,) if subject.round == "3.1" else ()
        allowed |= dict.fromkeys((keys.EVAL_START, keys.EVAL_STOP), (keys.EPOCH_NUM, *other))
        allowed |= {keys.BLOCK_START: other or (keys.EPOCH_COUNT,), keys.BLOCK_STOP: (keys.FIRST_EPOCH_NUM, *other)}
    if subject.benchmark is not None:
        allowed[keys.EVAL_ACCURACY] = (subject.benchmark.quality.convergence_unit,)
    return allowed


def _named(line: LogLine, wanted: tuple[str, ...]) -> Iterator[Problem]:
    is_given = False
    for key in wanted:
        if key not in line.metadata:
            continue
        is_given = True
        number = as_number(line.metadata[key])
        if number is None or number < 0:
            yield Problem(
                f"{line.key}: {key} is no number", line, found=show(line.metadata[key]), expected="a number from 0"
            )
    if not is_given:
        what = " or ".join(wanted)
        yield Problem(f"{line.key} does not state the progress of training", line, found=f"no {what}", expected=what)


@rule(
    "CA103",
    "blocks of training must alternate with evaluations",
    source="dlrmbench: block_start, block_stop, tracked_stats, eval_start, eval_accuracy, eval_stop, and again",
    remedy="Keep the log as the run wrote it.",
    requires={"ST101", "ST104", "ST107"},
    reads=(*_SCHEDULED, keys.RUN_START),
    applies=applies_to_ours,
)
def blocks_alternate(subject: LogSubject) -> Iterator[Problem]:
    """Between run_start and run_stop the same steps repeat in order: a block is trained, its throughput is logged,
    the model is evaluated. Only an aborted run may end in the middle, after a block that it could not finish or an
    evaluation without a quality."""
    lines = subject.log.lines
    names = [line.key for line in lines]
    if keys.RUN_START not in names or keys.RUN_STOP not in names:
        return
    first, last = names.index(keys.RUN_START), names.index(keys.RUN_STOP)
    for line in (*lines[: first + 1], *lines[last:]) if first < last else lines:
        if line.key in _IN_CYCLE:
            yield Problem(f"{line.key} is outside the run", line, expected="between run_start and run_stop")
    inside = [line for line in lines[first + 1 : last] if line.key in _IN_CYCLE]
    stop = lines[last]
    is_aborted = stop.metadata.get(keys.STATUS) == keys.ABORTED
    size = len(_CYCLE)
    in_order = zip(inside, cycle(_CYCLE), strict=False)
    wrong = next((index for index, (line, key) in enumerate(in_order) if line.key != key), len(inside))
    ending = tuple(line.key for line in inside[wrong - wrong % size :])
    if ending and not (is_aborted and ending in (_CYCLE[:2], (*_CYCLE[:4], keys.EVAL_STOP))):
        line = inside[wrong] if wrong < len(inside) else stop
        yield Problem(
            f"block {wrong // size + 1} is not followed as it should be",
            line,
            found=line.key,
            expected=_CYCLE[wrong % size],
        )
    if not inside:
        yield Problem("the run trained no block", stop, found="no block_start", expected="at least one block")


@rule(
    "CA104",
    "blocks and evaluations must have the sample counts of the schedule",
    source=_EVALUATION,
    remedy="Keep the log as the run wrote it; evaluate where the benchmark's rule says.",
    requires={"ST101", "ST103", "ST104", "ST105", "ST107", "ST110", "HP102", "CA102", "CA103"},
    reads=(*_SCHEDULED, *_SIZES, keys.SUBMISSION_BENCHMARK),
    applies=applies_to_ours,
)
def counts_follow_schedule(subject: LogSubject) -> Iterator[Problem]:
    """Blocks cover the samples without gap or overlap: block number i, counted from 0, covers exactly samples i*n to
    (i+1)*n. n is global_batch_size * FLOOR(train_samples / (global_batch_size * evaluations per epoch)). If the
    definition fixes the place of the first evaluation, the first block lasts until that place. Evaluations and
    run_stop are at the end of a block. Only an aborted run's last block may be shorter."""
    benchmark, log = subject.benchmark, subject.log
    samples, batch = as_whole(log.value(keys.TRAIN_SAMPLES)), as_whole(log.value(keys.GLOBAL_BATCH_SIZE))
    stop = log.last(keys.RUN_STOP)
    if benchmark is None or not samples or not batch or stop is None:
        return
    size = batch * benchmark.steps_between_evals(samples, batch)
    is_aborted = stop.metadata.get(keys.STATUS) == keys.ABORTED
    num_blocks = len(log.all(keys.BLOCK_START))
    reached, index = 0, -1

    def epoch_num(count: int) -> float:
        return benchmark.quality.first_epoch_num + count / samples

    def of_place(count: int) -> Mapping[str, float]:
        return {keys.SAMPLES_COUNT: count, keys.EPOCH_NUM: epoch_num(count)}

    first, last = -size, 0
    block: Mapping[str, float] = {keys.FIRST_EPOCH_NUM: epoch_num(first), keys.EPOCH_COUNT: size / samples}
    expected = place = of_place(last)
    for line in log.lines:
        if (key := line.key) not in _SCHEDULED:
            continue
        if key == keys.BLOCK_START:
            index += 1
            first, last = last, last + size if index else benchmark.first_eval_samples(samples, batch)
            block = {keys.FIRST_EPOCH_NUM: epoch_num(first), keys.EPOCH_COUNT: (last - first) / samples}
            expected, place = {keys.SAMPLES_COUNT: first, **block}, of_place(last)
        elif key == keys.BLOCK_STOP:
            reached = last
            if is_aborted and index == num_blocks - 1:
                given = as_whole(line.metadata.get(keys.SAMPLES_COUNT))
                if given is not None and first <= given <= last and given % batch == 0:
                    reached = given
            expected = {keys.SAMPLES_COUNT: reached, **block}
        else:
            expected = of_place(reached) if key == keys.RUN_STOP else place
        metadata = line.metadata
        for name, number in expected.items():
            given = metadata.get(name)
            if given != number or given is True or given is False:
                yield from _deviations(line, expected)
                break


def _deviations(line: LogLine, expected: Mapping[str, float]) -> Iterator[Problem]:
    for key, number in expected.items():
        found = as_number(line.metadata.get(key))
        if found is None or not math.isclose(found, number, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            yield Problem(
                f"{line.key}: {key} does not follow the schedule",
                line,
                found=show(line.metadata.get(key)),
                expected=show(number),
            )


@rule(
    "CA105",
    "the logged throughput of a block must fit the block's time",
    source="dlrmbench: tracked_stats is measured inside the block's stamps",
    remedy="Keep the log as the run wrote it.",
    requires={"ST101", "CA103", "CA104"},
    reads=_IN_CYCLE,
    applies=applies_to_ours,
)
def throughput_fits(subject: LogSubject) -> Iterator[Problem]:
    """The throughput in tracked_stats is a positive number in samples/s that fits the block's time stamps. The
    block's samples divided by the throughput take at most the time between the stamps, and at least half of it,
    within 30 ms."""
    start = stop = None
    for line in subject.log.lines:
        if (key := line.key) not in _IN_CYCLE:
            continue
        if key == keys.BLOCK_START:
            start = line
        elif key == keys.BLOCK_STOP:
            stop = line
        elif key == keys.TRACKED_STATS and start is not None and stop is not None:
            throughput = as_number(line.value.get("throughput")) if isinstance(line.value, dict) else None
            if throughput is None or throughput <= 0:
                yield Problem(
                    "no throughput", line, found=show(line.value), expected='{"throughput": samples/s above 0}'
                )
                continue
            counts = [as_number(record.metadata.get(keys.SAMPLES_COUNT)) or 0 for record in (start, stop)]
            claimed_s, took_s = (counts[1] - counts[0]) / throughput, stop.time_s - start.time_s
            if not 0.5 * took_s - 0.03 <= claimed_s <= 1.01 * took_s + 0.002:
                yield Problem(
                    "the throughput does not fit the time that the block took",
                    line,
                    found=f"{throughput:.6g} samples/s",
                    expected=f"about {(counts[1] - counts[0]) / max(took_s, 1e-3):.6g} samples/s",
                )


def _has_grid(subject: LogSubject) -> str | None:
    if (reason := _closed_of_others(subject)) is not None:
        return reason
    assert subject.benchmark is not None
    pinned = subject.benchmark.quality.first_eval is not None
    return None if pinned else "the benchmark does not fix the place of its first evaluation"


@rule(
    "CA106",
    "evaluations must be at the sample counts that the benchmark fixes",
    source="compliance_checker training_6.1.0/closed_dlrmv4.yaml: CHECK and FIRST_CHECK of eval_accuracy",
    remedy="Evaluate first at the pinned number of samples, and then after every interval.",
    requires={"ST101", "ST103", "ST105", "HP102", "CA102"},
    reads=(keys.EVAL_ACCURACY, *_SIZES),
    applies=_has_grid,
)
def evaluations_on_grid(subject: LogSubject) -> Iterator[Problem]:
    """Evaluations are at the places that the rules fix: samples_count of every eval_accuracy is a multiple of the
    interval, which is CEIL(train_samples / (global_batch_size * evaluations per epoch)) batches. The first evaluation
    is at the first multiple that is not before the earliest convergence of the reference runs at this batch size.
    Evaluations at other places would find the target earlier or later than the reference could."""
    benchmark = subject.benchmark
    assert benchmark is not None
    samples, batch = benchmark.data_samples(keys.TRAIN_SAMPLES), as_whole(subject.log.value(keys.GLOBAL_BATCH_SIZE))
    if not samples or not batch:
        return
    interval = benchmark.steps_between_evals(samples, batch) * batch
    first = benchmark.first_eval_samples(samples, batch)
    for index, line in enumerate(subject.log.all(keys.EVAL_ACCURACY)):
        count = as_number(line.metadata.get(keys.SAMPLES_COUNT))
        if index == 0 and count != first:
            yield Problem(
                "evaluation does not begin where it must", line, found=show(count), expected=f"{first} samples"
            )
        elif count is not None and count % interval:
            yield Problem(
                "evaluation off the grid", line, found=show(count), expected=f"a multiple of {interval} samples"
            )
