"""Make the study (tables and sentences) of a search of settings: the best trial measured again with the default, then
every trial."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

from harness.extensions.tuning.records import REGRET, SearchRecord, search_of
from harness.extensions.tuning.rule import MAX_TRIALS
from harness.extensions.tuning.sampler import choose_sampler
from harness.extensions.tuning.trials import (
    CORE_KINDS,
    Trial,
    best_of,
    columns_asked,
    constraint_text,
    value_text,
)
from harness.foundation.study import make_study, make_table
from harness.run_sets.commands import split_command
from reports.comparison.factor import factor_of
from reports.comparison.records import Comparison
from reports.comparison.wording import change_text, sentence, speed, threads_words, wide_range, with_sign
from reports.page.answer import BATCH_COST, BATCH_SIZE
from reports.text.formatting import capital, plural
from rules.benchmarks.loader import Benchmark
from rules.records.columns import columns_of
from rules.records.experiment import ExperimentRecord, without_options
from rules.records.kinds import is_logged
from rules.records.study import Cell, Origin, Parameter, StudyRecord, StudyTable

_SEARCHING = (
    "--axis", "--minimize", "--maximize", "--constraint", "--trials", "--sampler", "--parallel-trials",
    "--throughput", "--quality", "--seed", "--format",
)  # fmt: skip
"""Options of `tune` that are removed from its command line to make the command `run`, which trains with the best
trial's settings."""
_REGRET = "Regret is how far the best trial so far is from the best of all trials, as a share of the best of all."


@dataclass(frozen=True, kw_only=True, slots=True)
class Again:
    """Second measurement of a search's trial: in pairs with the default configuration, or by itself if the default
    was not measured."""

    trial: Trial | None = None
    comparison: Comparison | None = None
    """Comparison of the default with the trial that was measured again; None if there was nothing to compare."""
    columns: Sequence[Mapping[str, float]] = ()
    """Columns that each process measured when the trial was measured again, by name."""
    problem: str = ""
    """Reason why the second measurement has no result, or why its result does not count; '' if it counts."""
    missed: Sequence[tuple[Trial, str]] = ()
    """Trials with a better result in the search than this one, each with the reason why its second measurement does
    not count."""

    @property
    def is_alone(self) -> bool:
        return self.comparison is None and bool(self.columns)


def make_search_study(
    record: ExperimentRecord,
    trials: Sequence[Trial],
    benchmark: Benchmark,
    again: Again,
    shared_threads: int | None = None,
) -> StudyRecord:
    """Make the study (tables and sentences) of a search of settings: all trials, and the second measurement of the
    best one.

    `shared_threads` are the threads of each trial if these are its share of the cores; None otherwise.
    """
    assert record.stop is not None
    search, num_asked = search_of(record), int(record.stop.values["trials"])
    early = f"{num_asked} trials were asked for: no further point of the space was found."
    sampler, why = choose_sampler(search.sampler, num_asked)
    given: list[tuple[str, Cell]] = [
        (search.direction, search.objective),
        *(("constraint", constraint_text(each)) for each in search.constraints),
        ("trials", len(trials)),
        ("sampler", sampler),
        ("kind", record.kind),
        ("processes of a trial", 1),
        *([("parallel trials", search.parallel_trials)] if search.parallel_trials > 1 else []),
    ]
    return make_study(
        "tune",
        f"{benchmark.name}: {_answer(record, trials, again)}",
        benchmark,
        tables=[*_list_again(record, search, again), _list_trials(record, search, trials)],
        parameters=[
            Parameter(name=name, value=value, unit=None, source="given", note=why if name == "sampler" else None)  # type: ignore[arg-type]
            for name, value in given
        ],
        findings=[
            say_found(search, trials, again),
            *say_parallel(search, trials, shared_threads),
            *([early] if len(trials) < num_asked else []),
            *filter(None, [say_next(record, trials, again)]),
            _REGRET,
        ],
        seed=record.base_seed,
    )


def say_found(search: SearchRecord, trials: Sequence[Trial], again: Again) -> str:
    """Say in one sentence how a search's best trial compares with the default, or what the trial measured if the
    default measured nothing."""
    first, comparison, problem = best_of(search, trials), again.comparison, again.problem
    if first is None:
        known = [each for each in trials if len(each.excess) == len({*search.constraints})]
        missing = [each for each in known if max(each.excess.values(), default=0.0) > 0]
        least = min(missing, key=lambda each: max(each.excess.values()), default=None)
        closest = "" if least is None else f" Closest: {_name(trials, least)}, {least.reason}."
        return f"None of {len(trials)} trials is feasible.{closest}"
    if again.trial is None or not (comparison or again.is_alone):
        why = problem or trials[0].reason or "no other trial is feasible"
        return f"No trial was compared with the default: {why.rstrip('.')}."
    none = " No trial of the search did better than the default." if first is trials[0] else ""
    none += "".join(f" {capital(_name(trials, trial))} did better alone. {why}" for trial, why in again.missed)
    found, named = f"{none}{problem and ' '}{problem}", capital(_name(trials, again.trial))
    if comparison is None:
        default = f"the default measured nothing: {(trials[0].reason or 'unknown').rstrip('.')}"
        return f"{named}, {_say_alone(search, again)} with new seeds; {default}.{found}"
    threads = threads_words(comparison, again.trial.values)
    pairs = f"{threads and f', {threads},'} in {comparison.num_shared_seeds} pairs with new seeds"
    return f"{named} was compared with the default{pairs}. {with_sign(sentence(comparison))}{found}"


def _is_better(comparison: Comparison | None) -> bool:
    """Return whether a comparison with the default shows that the trial measured again is better."""
    return comparison is not None and comparison.verdict in ("faster", "better")


def say_next(record: ExperimentRecord, trials: Sequence[Trial], again: Again) -> str:
    """Return a sentence with the command to run next: training with the best trial's settings, or a search of twice
    the trials; '' where there is no such command."""
    assert record.stop is not None
    words, num_asked = split_command(record.command), int(record.stop.values["trials"])
    if words[1:2] != ["tune"]:
        return ""
    if again.trial is not None and not again.problem and _is_better(again.comparison):
        if record.kind not in CORE_KINDS:
            return ""
        sets = [word for key, text in again.trial.values.items() for word in ("--set", f"{key}={text}")]
        rest = without_options(words[2:], _SEARCHING, ("-q", "--quiet", "-v", "--verbose"))
        return f"Next, to train with these settings: {shlex.join(['dlrmbench', 'run', *rest, *sets])}"
    if len(trials) < num_asked or 2 * num_asked > MAX_TRIALS or _is_exhausted(record, trials):
        return ""
    more = [*without_options(words, ("--trials",), ("-q", "--quiet")), "--trials", str(2 * num_asked)]
    return f"Next, to try more settings: {shlex.join(more)}"


def _is_exhausted(record: ExperimentRecord, trials: Sequence[Trial]) -> bool:
    """Return whether a search has tried every point of its space; False for a space with a range."""
    if any(".." in text for axis in record.axes for text in axis.values):
        return False
    tried = {tuple(trial.values.get(axis.key) for axis in record.axes) for trial in trials}
    return all(point in tried for point in product(*(axis.values for axis in record.axes)))


def say_parallel(search: SearchRecord, trials: Sequence[Trial], shared_threads: int | None) -> list[str]:
    """Say how many trials of a search were measured at a time, and what that means for their values; nothing if one
    at a time."""
    if search.parallel_trials == 1:
        return []
    known = [trial.beside for trial in trials if trial.beside is not None]
    ends = dict.fromkeys(f"{end:.2f}" for end in (min(known), max(known))) if known else {}
    others = f", beside {' to '.join(ends)} others on average (measured)" if ends else ""
    share = "" if shared_threads is None else plural(shared_threads, "thread")
    threads = f" All trials have {share}, a trial's share of the cores." if share else ""
    return [
        f"{search.parallel_trials} trials were measured at a time, each on cores of its own{others}: the table of "
        f"trials has the values of this measurement. A trial that is measured again runs alone.{threads}"
    ]


def _say_alone(search: SearchRecord, again: Again) -> str:
    """Say what a trial measured that was measured alone, not alternately with the default configuration: the
    objective's mean over the processes, its least and its greatest value, as in 'samples_per_s 9,900 (9,800 to
    10,000) in 5 processes'."""
    found = [columns[search.objective] for columns in again.columns if search.objective in columns]
    name, processes = search.objective, plural(len(again.columns), "process", "processes")
    if not found:
        return f"no {name} in {processes}"
    values = (value_text(name, value) for value in (fmean(found), min(found), max(found)))
    return "{} {} ({} to {}) in {}".format(name, *values, processes)


def _answer(record: ExperimentRecord, trials: Sequence[Trial], again: Again) -> str:
    """Say in one line, for a title, how a search's best trial compares with the default, or what the trial measured
    if the default measured nothing."""
    search, num, comparison = search_of(record), plural(len(trials), "trial"), again.comparison
    best, first = again.trial, best_of(search, trials)
    if first is None:
        return f"none of {num} is feasible"
    of = plural(len(trials) - 1, "other trial") if first is trials[0] else num
    place = f"{'second best' if again.missed else 'best'} of {of}" if len(trials) != 2 else "only other trial"
    if best is None or not (again.is_alone or (comparison is not None and comparison.whole is not None)):
        return f"none of {num} was compared with the default"
    values = " ".join(f"{key.partition('.')[2]}={text}" for key, text in best.values.items())
    if again.problem:
        return f"{values} is not an answer: {again.problem[:1].lower()}{again.problem[1:].rstrip('.')}"
    if comparison is None or comparison.whole is None:
        return f"{values} is the {place}: {_say_alone(search, again)}; the default measured nothing"
    whole, verdict, what = comparison.whole, comparison.verdict, factor_of(comparison.whole.name).title
    threads = threads_words(comparison, best.values)
    named = f"{values}, the {place},"
    pairs = f"{what}, {plural(comparison.num_shared_seeds, 'A/B pair')}{f'; {threads}' if threads else ''}"
    change = speed(whole.time_ratio) if whole.time_ratio is not None else change_text(whole) or verdict
    change += wide_range(whole)
    kept, batch = "the default is kept; ", ""
    if _is_better(comparison):
        kept, batch = "", batch_words(record, trials[0], best)
    if verdict in ("faster", "slower"):
        return f"{kept}{named} is {with_sign(change)} than the default ({pairs}){batch}"
    if verdict in ("better", "worse"):
        return f"{kept}{named} is {verdict} than the default, by {with_sign(change)} ({pairs}){batch}"
    return f"{kept}{named} against the default: {verdict} ({pairs})"


def batch_words(record: ExperimentRecord, default: Trial, best: Trial) -> str:
    """Return a remark that training with another batch size may need more samples. Return '' if the best trial's
    batch size is the default's, or if all trials trained to the target."""
    sizes = [trial.values.get(BATCH_SIZE) for trial in (default, best)]
    if is_logged(record.kind) or None in sizes or sizes[0] == sizes[1]:
        return ""
    return BATCH_COST


def _name(trials: Sequence[Trial], trial: Trial) -> str:
    values = " ".join(f"{key.partition('.')[2]}={text}" for key, text in trial.values.items())
    return f"trial {trials.index(trial) + 1} ({values})"


def _list_trials(record: ExperimentRecord, search: SearchRecord, trials: Sequence[Trial]) -> StudyTable:
    """List every trial of a search, with the regret after it: the distance of the best trial so far from the best of
    all trials, as a share of the best value."""
    names, units = columns_asked(search), columns_of(record.kind)
    last, rows = best_of(search, trials), list[tuple[Cell, ...]]()
    for number, trial in enumerate(trials, start=1):
        best = best_of(search, trials[:number])
        known = best is not None and last is not None and best.objective is not None and last.objective
        regret = abs(best.objective / last.objective - 1) if known else None  # type: ignore[union-attr,operator]
        values = [trial.values.get(axis.key) for axis in record.axes]
        measured = [trial.columns.get(name) for name in names]
        rows.append((number, *values, *measured, None if best is None else best.objective, regret, trial.reason))
    columns: list[tuple[str, str | None, Origin]] = [
        ("Trial", None, "given"),
        *((axis.key, None, "given") for axis in record.axes),
        *((name, units[name].unit, "measured") for name in names),
        ("Best so far", units[search.objective].unit, "computed"),
        (REGRET, "share", "computed"),
        ("Infeasible because", None, "measured"),
    ]
    if all(trial.reason is None for trial in trials):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    at_a_time = f", {search.parallel_trials} at a time" if search.parallel_trials > 1 else ""
    title = f"Trials in the order made, one process each, equal seeds{at_a_time}; the first is the default"
    return make_table(title, columns, rows)


def _list_again(record: ExperimentRecord, search: SearchRecord, again: Again) -> list[StudyTable]:
    """Return a list of one table, on the trial that was measured again after the search; an empty list if none was.
    If the trial was measured in alternation with the default configuration, the table has one row, which compares the
    two. If the trial was measured alone, the table has a row for each process."""
    if again.comparison is not None:
        return [_list_sides(again.comparison)]
    if not again.is_alone:
        return []
    names, units = columns_asked(search), columns_of(record.kind)
    columns: list[tuple[str, str | None, Origin]] = [("Process", None, "given")]
    columns += [(name, units[name].unit, "measured") for name in names]
    rows = [(at, *(found.get(name) for name in names)) for at, found in enumerate(again.columns)]
    return [make_table("The best trial, measured again alone, with new seeds", columns, rows)]


def _list_sides(comparison: Comparison) -> StudyTable:
    """Return a table with one row that compares the trial measured again with the default. Unknown values, such as a
    ratio of qualities, get no column."""
    whole = comparison.whole
    unit = None if whole is None else whole.unit
    ends = None if whole is None else whole.shown_interval
    given: list[tuple[str, str | None, Origin, Cell]] = [
        ("Default", unit, "measured", None if whole is None else whole.base_value),
        ("Best other trial", unit, "measured", None if whole is None else whole.new_value),
        ("Best / default", None, "computed", None if whole is None else whole.ratio),
        ("Difference", None, "computed", None if whole is None else whole.difference),
        ("From", None, "computed", None if ends is None else ends.low),
        ("To", None, "computed", None if ends is None else ends.high),
        ("Pairs", None, "measured", comparison.num_shared_seeds),
        ("Verdict", None, "computed", comparison.verdict),
    ]
    known = [(name, unit, origin, value) for name, unit, origin, value in given if value is not None]
    columns = [(name, unit, origin) for name, unit, origin, _ in known]
    row = tuple(value for *_, value in known)
    title = "The default and the best other trial, measured again alternately (A/B), with new seeds"
    return make_table(title, columns, [row])
