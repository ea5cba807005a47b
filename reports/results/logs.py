"""Reads results from logs: every result directory at or below some paths, judged and scored once, with the records
beside it."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from reports.results.provenance import labels_of, name_of, repetition_key
from reports.results.records import SetRecords, read_set_records
from reports.results.resolution import mean_step, time_step
from reports.results.result import Fate, Judgement, Result, Run, Status, System, make_run, stated_by
from reports.statistics.intervals import Interval, time_interval
from reports.statistics.sequential_stopping import sequential_interval
from reports.text.formatting import printable
from rules.benchmarks.loader import shipped_names, shipped_versions
from rules.checks.subject import JudgedSet
from rules.checks.verdict import Verdict
from rules.judge.checker import judge_levels
from rules.judge.sets import judge_sets
from rules.official.opinion import OnProgress
from rules.records.run_set import UntilRecord
from rules.scoring.results import BenchmarkResult
from rules.tree.inventory import Inventory, list_result_sets, take_inventory
from rules.tree.result_set import ResultSet, real_path

Order = Literal["files", "score"]
_RESULT_NUMBER = re.compile(r"result_(\d{1,6})\.txt\Z")


def gather(
    paths: Sequence[Path | Inventory],
    *,
    second_opinion: bool = True,
    benchmark_file: Path | None = None,
    on_opinion: OnProgress | None = None,
    ruleset: str | None = None,
) -> tuple[Result, ...]:
    """Read the result of every result set (logs of one benchmark on one system) at or below `paths`, each folder
    once.

    The official MLPerf checker is run only with `second_opinion`. While it runs, `on_opinion` is called with the
    number of its verdicts so far and their total number. `benchmark_file` defines a user's own benchmark. `ruleset`
    is the official round to judge by. Raises InputError if there is nothing to read, DefinitionError if the round is
    not known.
    """
    found: dict[Path, ResultSet] = {}
    inventories = [path if isinstance(path, Inventory) else take_inventory(path, benchmark_file) for path in paths]
    for result_set in list_result_sets(inventories):
        is_one_log = len(result_set.logs) == 1
        key = real_path(result_set.logs[0] if is_one_log else result_set.folder)
        found.setdefault(key, result_set)
    judged = judge_sets(
        list(found.values()), benchmark_file, ruleset, second_opinion=second_opinion, on_opinion=on_opinion
    )
    levels = _levels_above(inventories, judged, benchmark_file, ruleset)
    return tuple(
        make_result(
            index,
            label,
            judged_set,
            read_set_records(judged_set.result_set, judged_set.files),
            levels.get(judged_set.verdict.subject, ()),
        )
        for index, (label, judged_set) in enumerate(zip(unique_labels(found.values()), judged, strict=True))
    )


def _levels_above(
    inventories: Sequence[Inventory], judged: Sequence[JudgedSet], benchmark_file: Path | None, ruleset: str | None
) -> dict[str, tuple[Verdict, ...]]:
    """Return a dict from the path of each judged result set, as the set's verdict states it, to the verdicts on what
    contains the set. The first verdict is on the submission that contains the set. The second is on the MLPerf round
    that contains the submission; it is missing if there is no round."""
    above: dict[str, tuple[Verdict, ...]] = {}
    tops = (verdict for found in inventories for verdict in judge_levels(found, judged, benchmark_file, ruleset))
    for top in tops:
        for submission in (part for part in top.walk() if part.level == "submission"):
            for part in submission.parts:
                above.setdefault(part.subject, (submission,) if submission is top else (submission, top))
    return above


def make_result(
    index: int, label: str, judged: JudgedSet, records: SetRecords, levels: tuple[Verdict, ...] = ()
) -> Result:
    """Make the result of one judged set of logs and of the records beside the logs; reads no file."""
    score, result_set = judged.result, judged.result_set
    by_index = {
        attempt.run_index: attempt
        for attempt in records.attempts
        if attempt.record is None or attempt.record.is_finished
    }
    runs: list[Run] = []
    for position, log in enumerate(score.runs):
        match, is_dropped = _RESULT_NUMBER.search(log.path), position in score.dropped
        number = int(match[1]) if match else position
        is_beyond = score.olympic_mean_s is not None and position >= score.num_runs_scored
        fate: Fate = "failed" if not log.converged else "dropped" if is_dropped or is_beyond else "counted"
        attempt = by_index.get(number)
        record = attempt.record if attempt else None
        runs.append(
            make_run(log, label=str(number), fate=fate, is_dropped=is_dropped, attempt=attempt, record=record)
        )
    committed = {id(run.attempt) for run in runs if run.attempt is not None}
    return Result(
        index=index,
        label=label,
        source="logs",
        place=result_set.root,
        status=benchmark_status(score.benchmark, is_defined=score.num_runs_required is not None),
        benchmark=score.benchmark,
        repetitions=tuple(runs),
        unfinished=tuple(attempt for attempt in records.attempts if id(attempt) not in committed),
        system=System(name=result_set.system, fields=records.system),
        stated=stated_by(score.runs),
        score=score,
        outcome=judged.verdict.outcome,
        judged=Judgement(result_set=result_set, verdict=judged.verdict, levels=levels),
        asked=records.run_set,
        repetition=repetition_key(records.run_set),
        interval=interval_of(score, records.run_set.until if records.run_set else None),
        problems=records.problems,
    )


def benchmark_status(name: str | None, *, is_defined: bool) -> Status:
    """Return who defines the benchmark of this name: 'official' for MLPerf, 'own' for another shipped benchmark or if
    `is_defined`, else 'unknown'."""
    if name is not None and name in shipped_names():
        return "official" if shipped_versions(name)[-1].status == "official" else "own"
    return "own" if name is not None and is_defined else "unknown"


def with_repeats(results: Sequence[Result]) -> tuple[Result, ...]:
    """Mark the runs that an earlier result also holds: set `repeats` of such a run to the earlier result's name, so
    that charts show the run once. Return the results."""
    seen: dict[object, str] = {}
    marked = []
    for result in results:
        keys = [[(identity, run.time_s) for identity in run.log.identities] for run in result.runs]
        firsts = [next((seen[key] for key in keys_of_run if key in seen), "") for keys_of_run in keys]
        if any(firsts):
            pairs = zip(result.runs, firsts, strict=True)
            result = replace(result, repetitions=tuple(replace(run, repeats=first) for run, first in pairs))
        marked.append(result)
        for key in (key for keys_of_run in keys for key in keys_of_run):
            seen.setdefault(key, result.label)
    return tuple(marked)


def in_order(results: Sequence[Result], order: Order) -> tuple[Result, ...]:
    """Return results in the order in which they were read, or by score, with INVALID results after the others and
    results without a score last."""
    if order == "files":
        return tuple(results)

    def place(result: Result) -> tuple[bool, bool, float]:
        score_s = result.score.score_s
        return score_s is None, result.outcome == "invalid", score_s or 0.0

    return tuple(sorted(results, key=place))


def unique_labels(result_sets: Iterable[ResultSet]) -> tuple[str, ...]:
    """Return a short, distinct name per result set: the run set's folder, or organisation, system and MLPerf
    round."""
    return labels_of([(_label(result_set), result_set.root) for result_set in result_sets])


def _label(result_set: ResultSet) -> str:
    if result_set.root is not None and result_set.organization is None:
        return name_of(result_set.root)
    system = result_set.system or real_path(result_set.folder).name
    parts = [result_set.organization, system, f"v{result_set.round}" if result_set.round else None]
    return " · ".join(printable(part, 60) for part in parts if part)


def interval_of(result: BenchmarkResult, until: UntilRecord | None) -> Interval | None:
    """Return the confidence interval of the geometric mean of all runs' times, which is printed beside a score. None
    if there is no score, or if a run did not converge: its time is infinite, so there is no mean.

    `until` is given for a run set that was to grow until its mean was precise enough. The level of its interval is
    raised to allow for this stopping rule.
    """
    if result.olympic_mean_s is None:
        return None
    times = [run.time_to_train_s if run.converged and run.time_to_train_s else math.inf for run in result.runs]
    step = mean_step(time_step, result.runs)
    return time_interval(times, step) if until is None else sequential_interval(times, step)
