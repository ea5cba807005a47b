"""Judge the logs of a result set together: the right number of different runs of one and the same configuration."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import NoneType

from rules.benchmarks.loader import Benchmark, shipped_names
from rules.benchmarks.rounds import may_log_trained_samples
from rules.checks.rule import Problem, Severity, rule
from rules.checks.run_log.structure import is_placeholder
from rules.checks.run_log.timing import NO_MILLISECONDS
from rules.checks.subject import SetSubject, applies_to_known
from rules.logs import keys
from rules.logs.log import RunLog, as_number
from rules.logs.text import letters, plural, printable, show
from rules.records.experiment import resume_command
from rules.scoring.results import RunResult, are_near, count_epochs_trained, met_outside
from rules.scoring.scoring import scored_runs

_RESULTS = 'training_rules.adoc, "Benchmark Results"'
_SCORING = 'training_rules.adoc, "Scoring"'
INCOMPLETE = "RS101"
NOT_CONVERGED = "RS105"
_FEWEST_EVALUATIONS = 3
_FEWEST_SHARED = 2
_NEAR = 2e-5
_ROUNDING = 2e-3
"""Relative tolerance between the epoch_nums of two logs, which are written with few digits."""


@rule(
    "RS106",
    "the directory of the logs must have the benchmark's name",
    source='submission_rules.adoc, "Directory structure, Training": results/<system>/<benchmark>/result_<i>.txt',
    remedy="Name the directory after the benchmark that was trained, or let the logs of new runs name it.",
)
def directory_names_benchmark(subject: SetSubject) -> Iterator[Problem]:
    """In a submission tree the directory above the logs has the benchmark's name, on which official tools rely."""
    name = subject.result_set.benchmark
    named = Counter(run.benchmark for run in subject.runs if run.benchmark)
    if name is not None and named and name not in named:
        logged = next(iter(named))
        meant = f"; or did you mean submission_benchmark {name} in the logs?" if name in shipped_names() else ""
        yield Problem(
            "the directory's name is not the benchmark's",
            found=show(name),
            expected=f"{show(logged)}, which the logs name{meant}",
        )


@rule(
    INCOMPLETE,
    "the set must hold as many runs as a score needs",
    source=f"{_RESULTS}: minimum number of runs; mlperf_logging package_checker",
    remedy="Add the missing runs; there is no score before. 'dlrmbench resume DIR --runs N' adds to its own sets.",
    severity="warning",
    applies=applies_to_known,
)
def enough_runs(subject: SetSubject) -> Iterator[Problem]:
    """A set holds at least the benchmark's number of runs. A set with fewer breaks no rule but has no score."""
    assert subject.benchmark is not None
    needed = subject.benchmark.score.num_runs
    if len(subject.logs) < needed:
        found_in = subject.result_set
        command = resume_command(found_in.root, needed) if found_in.root and found_in.is_run_set else None
        remedy = f"Add the missing runs ('{printable(command)}'); there is no score before." if command else None
        found, expected = plural(len(subject.logs), "run"), plural(needed, "run")
        yield Problem("too few runs", found=found, expected=expected, remedy=remedy)


@rule(
    "RS102",
    "the set must not hold more runs than a score needs",
    source=f"mlperf_logging package_checker: exactly N logs; {_SCORING}: with more than N runs, the N "
    "consecutive runs closest to the median count",
    remedy="Keep exactly the required runs in the directory, chosen as the rules say, never by their results.",
    requires={"RS106"},
    applies=applies_to_known,
)
def not_too_many_runs(subject: SetSubject) -> Iterator[Problem]:
    """A set has no more logs than the benchmark demands, since the official package checker accepts exactly this
    number. For an own benchmark, a longer set is only reported (info), since it cannot be scored over chosen runs:
    the score always takes the first runs by index. Comparisons and intervals use all runs."""
    assert subject.benchmark is not None
    needed = subject.benchmark.score.num_runs
    found, expected = plural(len(subject.logs), "run"), plural(needed, "run")
    if len(subject.logs) <= needed:
        return
    if subject.benchmark.status == "official":
        yield Problem("too many runs", found=found, expected=expected)
    else:
        yield Problem(
            f"the score is over runs 0 to {needed - 1}; comparisons and intervals use all",
            found=found,
            expected=expected,
            severity="info",
            remedy="Nothing: keep all runs where they are.",
        )


@rule(
    "RS103",
    "no run may occur twice in the set",
    source=f"{_SCORING}: N independent runs",
    remedy="Remove the copy and run again.",
)
def runs_differ(subject: SetSubject) -> Iterator[Problem]:
    """No two logs are the same file or the same run: the same bytes, or the same run_start to the millisecond
    (where stamps are milliseconds). No official tool compares logs with one another."""
    by_digest: dict[str, RunLog] = {}
    by_start: dict[float, RunLog] = {}
    for log in subject.logs:
        start = log.first(keys.RUN_START)
        twin = by_digest.setdefault(log.sha256, log)
        what = "is the same file as"
        if twin is log and start is not None and start.time_ms >= NO_MILLISECONDS:
            twin = by_start.setdefault(start.time_ms, log)
            what = "is the same run as"
        if twin is not log:
            yield Problem(
                f"{what} {Path(twin.path).name}",
                start or log.path,
                found=f"run_start {show(start.time_ms)}" if start is not None else "equal bytes",
                expected="a run of its own",
            )


@rule(
    "RS104",
    "all runs of a set must have the same benchmark, system and settings",
    source=f'{_RESULTS}; training_rules.adoc, "System and framework must be consistent"',
    remedy="Keep results of different settings or systems in different directories.",
)
def runs_agree(subject: SetSubject) -> Iterator[Problem]:
    """All logs of a set state the same settings: benchmark, version, definition, dataset, division, organisation,
    platform and every hyperparameter.

    - A difference in the status or in the implementation of matrix products is only a warning.
    - If the set's benchmark is known, ST110 reports a log of another benchmark instead.
    - Before round 3.0 train_samples may state the samples trained. It may then differ between runs of one dataset in
      proportion to the epochs of the last epoch_num; HP103 checks this.
    """
    same = [
        keys.SUBMISSION_BENCHMARK, keys.SUBMISSION_DIVISION, keys.BENCHMARK_VERSION, keys.DEFINITION_SHA256,
        keys.DATASET_SHA256, keys.QUALITY_TARGET, keys.TRAIN_SAMPLES, keys.EVAL_SAMPLES, keys.GLOBAL_BATCH_SIZE,
        keys.GRADIENT_ACCUMULATION_STEPS, keys.IMPLEMENTATION, keys.PRECISION, keys.WORLD_SIZE, keys.NUM_THREADS,
        keys.SUBMISSION_ORG, keys.SUBMISSION_PLATFORM,
    ]  # fmt: skip
    optimizer = {
        key for log in subject.logs for key in log.by_key if "opt_" in key or key == keys.LR_DECAY_START_STEPS
    }
    if subject.benchmark is not None:
        same.remove(keys.SUBMISSION_BENCHMARK)
        sizes = {run.train_samples for run in subject.runs} - {None}
        is_one = len(sizes) < 2 or _grow_with_epochs(subject.logs, subject.benchmark, subject.round)
        if is_one and may_log_trained_samples(subject.benchmark) and not subject.is_ours:
            same.remove(keys.TRAIN_SAMPLES)
    for key in (*same, *sorted(optimizer - set(same))):
        yield from _disagreement(subject, key, "error")
    for key in (keys.SUBMISSION_STATUS, keys.KERNELS):
        yield from _disagreement(subject, key, "warning")


def _grow_with_epochs(logs: Sequence[RunLog], benchmark: Benchmark, round_name: str | None) -> bool:
    """Return whether train_samples divided by the epochs trained is the same in all logs, within rounding; if so,
    train_samples states the number of samples trained and not the dataset's size."""
    ratios = []
    for log in logs:
        samples, epochs = as_number(log.value(keys.TRAIN_SAMPLES)), count_epochs_trained(log, benchmark, round_name)
        if samples is None or epochs is None:
            return False
        ratios.append(samples / epochs)
    return max(ratios) <= min(ratios) * (1 + _ROUNDING)


def _disagreement(subject: SetSubject, key: str, severity: Severity) -> Iterator[Problem]:
    """Yield problems where the set's logs differ in a key's value. A log without run_stop may lack the key, since its
    run may have ended before it logged the key (ST104, ST116 report this)."""
    compared = [log for log in subject.logs if log.all(key) or log.all(keys.RUN_STOP)]
    values = [log.value(key) for log in compared]
    if _are_same(values) or len(set(map(repr, values))) < 2:
        return
    groups: dict[str, list[RunLog]] = defaultdict(list)
    for log in compared:
        line = log.first(key)
        value = line.value if line is not None else None
        groups[show(float(value) if isinstance(value, int) and abs(value) < 2**53 else value)].append(log)
    if len(groups) < 2:
        return
    usual = max(groups, key=lambda value: len(groups[value]))
    for logs in (logs for value, logs in groups.items() if value != usual):
        line = logs[0].first(key)
        mean_s = subject.result.olympic_mean_s if key == keys.GLOBAL_BATCH_SIZE else None
        yield Problem(
            f"{key} differs between the runs"
            + (f" ({len(logs)} logs)" if len(logs) > 1 else "")
            + ("" if mean_s is None else f"; the Olympic mean of all, which is not a score, is {mean_s:.3f} s"),
            line or logs[0].path,
            found="no record" if line is None else show(line.value),
            expected=f"{show(groups[usual][0].value(key))} as in {Path(groups[usual][0].path).name}",
            severity=severity,
        )


def _are_same(values: Sequence[object]) -> bool:
    """Return whether all values are equal and of one JSON type: string, whole number, boolean or null. This test is
    faster than comparing the values as texts, which decides for other types."""
    kind = type(values[0]) if values else None
    return kind in (str, int, bool, NoneType) and all(type(each) is kind and each == values[0] for each in values)


@rule(
    NOT_CONVERGED,
    "only runs that scoring drops as slowest may miss the target",
    source=f'{_RESULTS}: "A benchmark result is invalid if there is more than one non-converging run"',
    remedy="Find out why runs fail to converge; a set with two of them has no score.",
    applies=applies_to_known,
)
def few_not_converged(subject: SetSubject) -> Iterator[Problem]:
    """A run that did not meet the target counts as infinitely slow. A set may hold as many of these runs as Olympic
    scoring drops at the slow end."""
    assert subject.benchmark is not None
    scored = scored_runs(subject.runs, subject.benchmark)
    failed = [run for run in scored if not run.converged]
    if len(failed) > subject.benchmark.score.drop:
        late = sum(
            run.quality_target is not None and met_outside(log, run.quality_target, subject.round) is not None
            for log, run in zip(subject.logs, scored, strict=False)
            if not run.converged
        )
        yield Problem(
            "too many runs did not converge"
            + (f"; in {late} of them the target was met outside of run_start to run_stop" if late else ""),
            failed[0].path,
            found=f"{len(failed)} of {len(scored)} runs",
            expected=f"at most {subject.benchmark.score.drop}",
        )


@rule(
    "RS107",
    "submission_org in the log must be the name of the submitter's directory",
    source="mlcommons/logging#241",
    remedy="Set submission_org before running.",
    severity="warning",
)
def organization_matches(subject: SetSubject) -> Iterator[Problem]:
    """submission_org is the name of the submitter's directory. A difference is common where a company resells a
    system and keeps the vendor's name in its logs; no official tool notices. ST113 reports a placeholder as
    submission_org. If the platform is a placeholder, the whole log is a vendor's template, and a difference is only
    reported (info)."""
    folder = subject.result_set.organization
    if folder is None or subject.is_ours:
        return
    named = Counter(run.organization for run in subject.runs if run.organization)
    if named and not any(letters(name) == letters(folder) or is_placeholder(name) for name in named):
        line = subject.logs[0].first(keys.SUBMISSION_ORG)
        is_template = any(is_placeholder(run.platform) for run in subject.runs)
        yield Problem(
            "submission_org is not the directory's organisation",
            line or subject.logs[0].path,
            found=show(next(iter(named))),
            expected=show(folder),
            severity="info" if is_template else None,
        )


@rule(
    "RS115",
    "no two runs of a set may evaluate to the same qualities",
    source=f"{_SCORING}: N independent runs",
    remedy="Look whether a log was copied and its stamps changed; else say why two trainings came out alike.",
    severity="warning",
)
def results_differ(subject: SetSubject) -> Iterator[Problem]:
    """No two runs of a set agree in their qualities, which would show a copied log.

    - Runs of at least three evaluations agree if all their qualities are equal, in all digits and in the same order.
    - Runs of any length agree if they share two exact qualities. An exact quality has more than six decimals and is
      not a count of evaluation samples (as an accuracy is). In 4,040 pairs of published runs of rounds 3.0 to 5.1, no
      two distinct runs share two.
    - In official logs, runs of at least four evaluations also agree if they differ by less than 2e-5 at every
      evaluation. In 4,799 pairs of published runs, even the nearest two differ by 4.9e-5 at one evaluation.
    """
    by_qualities: dict[tuple[float, ...], RunResult] = {}
    by_quality: dict[float, RunResult] = {}
    before: list[RunResult] = []
    for log, run in zip(subject.logs, subject.runs, strict=True):
        qualities = run.qualities
        others = Counter(id(by_quality.setdefault(quality, run)) for quality in run.fine_qualities)
        del others[id(run)]
        shared = max(others.values(), default=0)
        twin = by_qualities.setdefault(qualities, run) if len(qualities) >= _FEWEST_EVALUATIONS else run
        what = "all evaluations have the qualities of"
        if twin is run and shared >= _FEWEST_SHARED:
            twin = next(other for other in by_quality.values() if others[id(other)] == shared)
            what, qualities = f"{shared} evaluations have exact qualities of", qualities[:shared]
        if twin is run and not subject.is_own and not subject.is_ours:
            twin = next((other for other in before if are_near(other.qualities, qualities, _NEAR)), run)
            what = f"all evaluations are within {_NEAR:g} of those of"
        before.append(run)
        if twin is run or twin.log_sha256 == run.log_sha256 or twin.started_ms == run.started_ms:
            continue
        line = log.first(keys.EVAL_ACCURACY)
        yield Problem(
            f"{what} {Path(twin.path).name}",
            line or run.path,
            found=f"{len(qualities)} {'near' if 'within' in what else 'equal'} qualities",
            expected="qualities of its own",
        )
