"""Judge whether a log has the hyperparameter values that the Closed division fixes."""

from collections.abc import Iterator

from rules.benchmarks.loader import Benchmark
from rules.benchmarks.rounds import may_log_trained_samples
from rules.checks.rule import Problem, rule
from rules.checks.subject import LogSubject, applies_to_known, applies_to_ours
from rules.logs import keys
from rules.logs.log import LogLine, RunLog, as_number, as_whole
from rules.logs.text import show
from rules.scoring.results import MOST_LEFT_OUT, count_epochs_trained, is_trained_samples

PRECISIONS = (
    "fp64", "fp32", "tf32", "fp16", "bf16", "bfloat16", "fp8", "nvfp4", "mxfp4", "int8", "uint8", "int4", "uint4",
)  # fmt: skip


def _binds(subject: LogSubject) -> str | None:
    if subject.benchmark is None:
        return "no definition of the benchmark is known"
    return None if subject.is_closed or subject.benchmark.open else "the Open division leaves hyperparameters free"


@rule(
    "HP101",
    "hyperparameters must have values that the division allows",
    source='training_rules.adoc, "Hyperparameters"; compliance_checker closed_, open_<benchmark>.yaml',
    remedy="Run with the definition's values, or in the Open division; values are never edited in a log.",
    requires={"ST101", "ST110"},
    applies=_binds,
)
def allowed_values(subject: LogSubject) -> Iterator[Problem]:
    """Every key of the definition's [closed] section has an allowed value, in every record of that key. A boolean, or
    a number in quotes, does not count as a number. Logs of the Open division are bound only by a section [open], if
    the definition has one. If the allowed values of a key depend on another key, the other key is logged first, since
    the official checker reads a log from top to bottom."""
    assert subject.benchmark is not None
    log, division = subject.log, subject.division.capitalize()
    for key, general in subject.allowed.items():
        constraint = general.resolve(log.value)
        is_free = not subject.is_closed and general.free
        other = log.first(general.other) if general.other is not None else None
        for line in () if is_free else log.all(key):
            if not constraint.allows(line.value):
                expected = str(constraint) if general == constraint else f"{constraint} ({general})"
                yield Problem(f"{key} is not what {division} allows", line, found=show(line.value), expected=expected)
            elif other is not None and other.line_num > line.line_num:
                yield Problem(
                    f"{key} is above {other.key}, on which it depends",
                    line,
                    found=f"line {line.line_num}",
                    expected=f"below line {other.line_num}",
                )


@rule(
    "HP102",
    "the global batch size must be from 1 to the number of training samples",
    source='training_rules.adoc, "Hyperparameters"',
    remedy="Use a global batch size from 1 to the number of training samples.",
    requires={"ST101", "ST105"},
    reads=(keys.GLOBAL_BATCH_SIZE, keys.TRAIN_SAMPLES),
)
def batch_fits(subject: LogSubject) -> Iterator[Problem]:
    """global_batch_size is a whole number, at least 1 and at most train_samples."""
    samples = as_whole(subject.log.value(keys.TRAIN_SAMPLES))
    for line in subject.log.all(keys.GLOBAL_BATCH_SIZE):
        batch = as_whole(line.value)
        if batch is None or batch < 1 or (samples is not None and batch > samples):
            yield Problem(
                "global_batch_size is impossible",
                line,
                found=show(line.value),
                expected="a whole number from 1" + (f" to {samples}" if samples is not None else ""),
            )


@rule(
    "HP103",
    "logged numbers of samples must be those of the dataset",
    source='training_rules.adoc, "Data Set"; training_rules.adoc, "Equivalence exceptions": the last partial '
    "training batch may be dropped; compliance_checker closed_<benchmark>.yaml (eval_samples)",
    remedy="Train and evaluate on the whole dataset of the benchmark.",
    requires={"ST101", "ST110"},
    reads=(keys.TRAIN_SAMPLES, keys.EVAL_SAMPLES, keys.GLOBAL_BATCH_SIZE, keys.SUBMISSION_BENCHMARK),
    applies=applies_to_known,
)
def dataset_size(subject: LogSubject) -> Iterator[Problem]:
    """train_samples and eval_samples have the definition's values.

    - In official logs train_samples may leave out the last partial batch.
    - Before round 3.0 train_samples may state the samples trained instead: the dataset's size times the epochs of the
      last epoch_num. Any other value of train_samples is then only a warning.
    - A value that the division fixes, such as eval_samples of dlrm_dcnv2, is judged by HP101 instead.
    - For values that the division does not fix, which the official checker ignores, a difference of up to 1 % is a
      warning.
    """
    benchmark = subject.benchmark
    assert benchmark is not None
    may_be_trained = may_log_trained_samples(benchmark) and not subject.is_ours
    batch = as_whole(subject.log.value(keys.GLOBAL_BATCH_SIZE))
    for key in (keys.TRAIN_SAMPLES, keys.EVAL_SAMPLES):
        expected = benchmark.data_samples(key)
        is_judged = key in subject.allowed and not subject.allowed[key].free
        if expected is None or is_judged or (key == keys.TRAIN_SAMPLES and not subject.is_closed):
            continue
        for line in subject.log.all(key):
            number = as_number(line.value)
            dropped = batch is not None and batch > 0 and number == expected // batch * batch
            if number == expected or (dropped and key == keys.TRAIN_SAMPLES and not subject.is_ours):
                continue
            if may_be_trained and key == keys.TRAIN_SAMPLES:
                yield from _trained_samples(line, subject, benchmark, expected)
            else:
                is_close = number is not None and abs(number - expected) <= MOST_LEFT_OUT * expected
                fixed = subject.is_ours or key in benchmark.closed or not is_close
                yield Problem(
                    f"{key} is not the benchmark's",
                    line,
                    found=show(line.value),
                    expected=show(expected),
                    severity="error" if fixed else "warning",
                )


def _trained_samples(line: LogLine, subject: LogSubject, benchmark: Benchmark, size: int) -> Iterator[Problem]:
    """Yield a problem if train_samples equals neither the dataset's size nor the samples trained by the last
    evaluation's epoch_num. The problem states the dataset's size as expected if the log has no epoch_num, or if
    train_samples is within 1 % of it. Otherwise it says that train_samples and epoch_num contradict each other, and
    names a batch size that would explain both if there is one."""
    log = subject.log
    number, epochs = as_number(line.value), count_epochs_trained(log, benchmark, subject.round)
    if number is None or (epochs is not None and is_trained_samples(number, epochs, size)):
        return
    if epochs is None or abs(number - size) <= MOST_LEFT_OUT * size:
        yield Problem(
            "train_samples is not the benchmark's",
            line,
            found=show(line.value),
            expected=f"{size}, or the samples trained",
            severity="warning",
        )
        return
    trained = epochs * size
    batch = as_whole(log.value(keys.GLOBAL_BATCH_SIZE)) or 0
    other = _explaining_batch(number, trained, batch) if batch > 0 else None
    yield Problem(
        f"train_samples is {number / trained:.4g} of what epoch_num gives"
        + (f"; both fit if epoch_num counts batches of {other}, not of {batch}" if other is not None else ""),
        line,
        found=show(line.value) + _by_statistics(log),
        expected=f"{trained:.0f} after {epochs:.6g} epochs, or the dataset's {size}",
        severity="warning",
        remedy="Compute epoch_num and train_samples from the batch size that was trained with.",
    )


def _by_statistics(log: RunLog) -> str:
    """Return a clause on the number of samples that were trained if the log's only throughput is right: the
    throughput times the run's time. It helps to see which of train_samples and epoch_num is wrong."""
    lines, start, stop = log.all(keys.TRACKED_STATS), log.first(keys.RUN_START), log.last(keys.RUN_STOP)
    value = lines[0].value if len(lines) == 1 else None
    throughput = as_number(value.get("throughput")) if isinstance(value, dict) else None
    if throughput is None or start is None or stop is None:
        return ""
    return f"; throughput in tracked_stats times the run's time is {throughput * (stop.time_s - start.time_s):.4g}"


def _explaining_batch(number: float, trained: float, batch: int) -> int | None:
    """Return the batch size that would explain why a log states two different numbers of samples, `number` and
    `trained`; None if there is none. With the log's batch size `batch`, `number` is a number of steps times the batch
    size; the returned batch size makes `trained` of as many steps.

    Some logs count the last step and others do not, so two numbers of steps are tried, and the rounder of the two
    batch sizes is returned. None is returned if `number` and `trained` differ by more than a factor of 10, or for
    fewer than two steps.
    """
    steps = int(number / batch + 0.5)
    if not 0.1 <= number / trained <= 10 or steps < 2:
        return None
    sizes = [trained / count for count in (steps, steps - 1)]
    best = min(sizes, key=lambda size: abs(size - round(size)))
    return round(best)


@rule(
    "HP104",
    "the logged precision must be one that the rules approve",
    source='training_rules.adoc, "Numerical formats"',
    remedy="Name the lowest precision of the training arithmetic, such as fp32 or bf16.",
    requires={"ST101"},
    reads=(keys.PRECISION,),
    applies=applies_to_ours,
)
def known_precision(subject: LogSubject) -> Iterator[Problem]:
    """precision is one of the formats that the rules approve."""
    for line in subject.log.all(keys.PRECISION):
        if line.value not in PRECISIONS:
            yield Problem("unknown precision", line, found=show(line.value), expected=", ".join(PRECISIONS))


@rule(
    "HP106",
    "opt_name must be read from the optimizer that trained",
    source="a rule of dlrmbench, not of MLPerf, based on the optimizers that dlrmbench writes to opt_name",
    remedy="Keep the optimizers in the implementation's attribute `optimizers`; a bare claim cannot be verified.",
    severity="warning",
    requires={"ST101"},
    reads=(keys.OPT_NAME,),
    applies=applies_to_ours,
)
def optimizer_is_seen(subject: LogSubject) -> Iterator[Problem]:
    """opt_name is read from the optimizers that the implementation has built. Where the implementation shows none,
    its own claim is in the log, marked by is_claimed in the metadata."""
    line = subject.log.first(keys.OPT_NAME)
    if line is not None and line.metadata.get(keys.IS_CLAIMED) is True:
        yield Problem("the implementation shows no optimizer: this is what it claims", line, found=show(line.value))


@rule(
    "HP105",
    "all rules of the Closed division should be applied to the run",
    source='training_rules.adoc, "Divisions"; compliance_checker open_<benchmark>.yaml',
    remedy="Nothing, if Open is meant; else log submission_division closed and run by its rules.",
    severity="info",
    requires={"ST101", "ST110"},
    applies=applies_to_known,
)
def open_is_said(subject: LogSubject) -> Iterator[Problem]:
    """Reports, for a log of the Open division, the rules of Closed that were not applied, and the values that Closed
    would not allow."""
    if subject.is_closed:
        return
    assert subject.benchmark is not None
    dropped = ["HP101 (hyperparameters)"] if not subject.benchmark.open else ["HP101 (most hyperparameters)"]
    dropped += [] if keys.TRAIN_SAMPLES in subject.benchmark.open else ["HP103 (train_samples)"]
    if not subject.is_ours:
        dropped += ["CA101 (interval of evaluations)", "ST104 (keys of Closed, the seed among them)"]
        quality = subject.benchmark.stated_quality
        is_bound = quality is not None and quality.binds_open
        dropped += ["RC101 (reference convergence points)"] + ([] if is_bound else ["QU102 (quality target)"])
    log, closed = subject.log, subject.benchmark.closed
    others = [
        key
        for key, constraint in closed.items()
        if (line := log.first(key)) and not constraint.resolve(log.value).allows(line.value)
    ]
    line = log.first(keys.SUBMISSION_DIVISION)
    yield Problem(
        f"judged by the Open division's rules, without {', '.join(dropped)}",
        line,
        found="Open; " + (f"not as in Closed: {', '.join(others)}" if others else "every value is one of Closed"),
    )
