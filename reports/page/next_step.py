"""Chooses the command that a page suggests to run next: more runs, a comparison, a training, or a one-page
summary."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from reports.comparison.comparison import GroupContext, compare_results, context_of
from reports.comparison.sweep import SweepFacts
from reports.document.blocks import Fact
from reports.facts.noise import is_disturbed
from reports.kinds.details import details_of
from reports.page.answer import BATCH_SIZE
from reports.page.content import ReportContent
from reports.parts.study import split_step
from reports.results.provenance import group_of, order_in_pair
from reports.results.reference_systems import system_of
from reports.results.result import Result
from reports.statistics.intervals import MIN_RUNS
from reports.text.formatting import plural, printable
from rules.benchmarks.loader import load_benchmark, shipped_names
from rules.records.experiment import ExperimentRecord, resume_command, without_options
from rules.records.profile import ProfileRecord
from rules.records.run_set import RunSetRecord
from rules.tree.result_set import real_path

_OTHERS = {"reference": "optimized", "optimized": "reference"}
_KINDS = ("training", "throughput", "quality")
"""Kinds of measurement that every implementation of a model (such as reference or optimized) supports."""
_MAX_COMMAND = 400
_MOST_RUNS = 20
"""Number of runs per configuration at which the page stops suggesting to double the runs of a sweep."""
_MEASURING = ("--throughput", "--quality", "-n", "--runs", "--name", "--seed", "--format")
"""Options of a sweep's command to be removed from it where the page suggests a command that trains the sweep's
configurations to the target."""
_TO_QUIET = "names what makes this machine noisy; then measure again"
_TO_REPAIR = "lists the broken rules with their remedies"
_TO_DECIDE = "writes a one-page summary for a decision"


def next_step(content: ReportContent, *, is_brief: bool = False) -> Fact | None:
    """Return the suggested next command, with its purpose, for a page of one study (computed or measured tables), one
    sweep or one profile, or of results that this harness made; None for other pages."""
    asked = [study for study in content.studies if study.made is not None]
    if len(content.studies) == 1 and asked:
        return next(filter(None, (split_step(finding)[1] for finding in asked[0].findings)), None)
    found = None if asked or content.published else _after(content)
    if found is None or (is_brief and found[1] == _TO_DECIDE):
        return None
    command, purpose = found
    if len(command) > _MAX_COMMAND:
        return None
    return Fact(name="Next", value=printable(command), note=f" {purpose}", is_code=True)


def _after(content: ReportContent) -> tuple[str, str] | None:
    """Return the suggested next command, with its purpose, after the sweep, profile or results on the page; None
    where no command is suggested."""
    results = [*content.sets, *content.measured]
    if len(content.sweeps) == 1 and not content.profiles and len(results) <= len(content.sweeps[0].rows):
        return None if content.measured else _after_sweep(content.sweeps[0])
    if len(content.profiles) == len(content.profile_sets) == 1 and not results and not content.sweeps:
        return _after_profile(content.profiles[0], content.profile_sets[0])
    own = [each for each in results if not system_of(each)]
    if content.sweeps or not all(each.asked and each.place is not None for each in own):
        return None
    if len(own) < 2:
        return _after_one(own[0]) if own else None
    return None if len(own) < len(results) else _after_two(own) if len(own) == 2 else _after_many(own)


def _after_sweep(sweep: SweepFacts) -> tuple[str, str] | None:
    """Return the suggested next command after a sweep, with its purpose: list broken rules, find what makes the
    machine noisy, add runs that a verdict needs, train to the target those configurations of which only throughput
    was measured, or show a page on one sheet. None if the sweep has no record."""
    sides = [row.result for row in sweep.rows if row.result is not None and row.result.place is not None]
    group = group_of(sides[0].place) if len(sides) > 1 else None
    if group is None or not isinstance(group.record, ExperimentRecord):
        return None
    folder, member = _from_here(group.file.parent), _from_here(sides[0].place or group.file.parent)
    if any(side.outcome == "invalid" for side in sides):
        return shlex.join(["dlrmbench", "check", str(folder)]), _TO_REPAIR
    if any(map(is_disturbed, sides)):
        return "dlrmbench doctor", _TO_QUIET
    fewest, most = min(side.num_converged for side in sides), max(side.num_runs for side in sides)
    words = ("run", "runs") if sweep.is_of_runs else ("process", "processes")
    if fewest < MIN_RUNS:
        total = MIN_RUNS + most - fewest
        purpose = f"makes the {MIN_RUNS} {words[1]} per configuration that a verdict needs"
        return resume_command(member, total), purpose
    if sweep.best is not None and sweep.best.alike and most < _MOST_RUNS and sweep.law is None:
        purpose = f"makes {2 * most} {words[1]} per configuration, to detect smaller differences"
        return resume_command(member, 2 * most), purpose
    if sweep.kind == "throughput" and (trained := _train_all(group.record, sweep)):
        return trained, "trains each configuration to the target, as the fastest may need more samples"
    return shlex.join(["dlrmbench", "report", str(folder), "--summary"]), _TO_DECIDE


def _train_all(record: ExperimentRecord, sweep: SweepFacts) -> str:
    """Return the command that trains the configurations of a sweep over batch sizes to the target. Return '' if the
    benchmark has no target, if the sweep was not made from the command line, or if the sweep varied or changed a
    setting other than the batch size and the settings of the section 'runtime'."""
    try:
        words = shlex.split(record.command)
    except ValueError:
        return ""
    has_target = sweep.benchmark in shipped_names() and load_benchmark(sweep.benchmark).stated_quality is not None
    keys = {key for key, _ in sweep.axes if not key.startswith("runtime.")}
    is_same_problem = keys == {BATCH_SIZE} and not {"--set", "--config", "-c"} & {*words}
    if words[:2] != ["dlrmbench", "sweep"] or not has_target or not is_same_problem:
        return ""
    return shlex.join(without_options(words, _MEASURING, ("-q", "--quiet", "--profile", "--fit")))


def _after_profile(profile: ProfileRecord, record: RunSetRecord) -> tuple[str, str] | None:
    """Return the command that profiles the model's other implementation (reference or optimized), with its purpose;
    None where there is no other implementation."""
    try:
        words = shlex.split(record.command)
    except ValueError:
        return None
    other = _OTHERS.get(profile.implementation)
    if words[:2] != ["dlrmbench", "profile"] or other is None:
        return None
    kept = without_options(words, ("--implementation", "--format", "--name", "-o", "--output"), ("-q", "--quiet"))
    return shlex.join([*kept, "--implementation", other]), f"profiles the {other} implementation, to compare both"


def _after_one(result: Result) -> tuple[str, str] | None:
    """Return the suggested next command after one result, with its purpose: list broken rules, find what makes the
    machine noisy, add runs that a score or verdict needs, or compare with another configuration. None where none of
    these applies."""
    assert result.place is not None and result.asked is not None
    place, record = _from_here(result.place), result.asked
    if result.outcome == "invalid":
        return shlex.join(["dlrmbench", "check", str(place)]), _TO_REPAIR
    if is_disturbed(result):
        return "dlrmbench doctor", _TO_QUIET
    needed = result.score.num_runs_required if result.is_logged else MIN_RUNS
    if needed is not None and result.num_runs < needed:
        word = ("run", "runs") if result.is_logged else ("process", "processes")
        purpose = "a score needs" if result.is_logged else "a verdict needs on each side"
        return resume_command(place, needed), f"makes the {plural(needed, *word)} that {purpose}"
    follow = details_of(result.kind).following
    if follow is not None and (asked := follow(result)) is not None:
        options, purpose = asked
        return shlex.join(["dlrmbench", "versus", str(place), *options]), f"{purpose}, alternately (A/B)"
    chosen = record.config.get("runtime.implementation")
    other = None if chosen is None else _OTHERS.get(str(chosen.value))
    if result.kind not in _KINDS or other is None:
        return None
    command = shlex.join(["dlrmbench", "versus", str(place), "--implementation", other])
    return command, f"measures the {other} implementation alternately (A/B) with this one"


def _after_many(results: Sequence[Result]) -> tuple[str, str]:
    """Return the suggested next command after several results, with its purpose: list broken rules, find what makes
    the machine noisy, or show a page on one sheet."""
    places = [str(_from_here(each.place)) for each in results if each.place is not None]
    refused = [place for each, place in zip(results, places, strict=True) if each.outcome == "invalid"]
    if refused:
        return shlex.join(["dlrmbench", "check", *refused]), _TO_REPAIR
    if any(map(is_disturbed, results)):
        return "dlrmbench doctor", _TO_QUIET
    return shlex.join(["dlrmbench", "report", *places, "--summary"]), _TO_DECIDE


def _after_two(results: Sequence[Result]) -> tuple[str, str] | None:
    """Return the suggested next command after a comparison of two results, with its purpose: list broken rules, find
    what makes the machine noisy, measure alternately (A/B), add runs, or show a page on one sheet; None where there
    is nothing to suggest, such as for results that must not be compared."""
    base, new = sorted(results, key=lambda result: order_in_pair(result.place))
    context = context_of([base, new]) if base.is_logged and new.is_logged else GroupContext()
    if base.quantities != new.quantities:
        return None
    (found,) = compare_results(base, [new], context=context)
    whole = found.whole
    if found.refusal is not None or whole is None or base.place is None or new.place is None:
        return None
    sides = ((base, base.place), (new, new.place))
    if refused := [str(_from_here(place)) for side, place in sides if side.outcome == "invalid"]:
        return shlex.join(["dlrmbench", "check", *refused]), _TO_REPAIR
    if found.disturbed_sides:
        return "dlrmbench doctor", _TO_QUIET
    if found.is_one_after_the_other:
        better = found.measure_better
        purpose = "measures both sets alternately (A/B), which shows smaller differences"
        return None if better is None else (better, purpose)
    group = group_of(new.place)
    is_pair = group is not None and group.is_pair
    fewest = min(base.num_converged, new.num_converged)
    words = ("run", "runs") if base.is_logged else ("process", "processes")
    if is_pair and fewest < MIN_RUNS:
        total = MIN_RUNS + max(base.num_runs, new.num_runs) - fewest
        return resume_command(
            _from_here(new.place), total
        ), f"makes the {MIN_RUNS} {words[1]} per side that a verdict needs"
    needed = whole.runs_needed_low or whole.runs_needed
    if is_pair and found.verdict == "inconclusive" and needed is not None and needed > fewest:
        total = needed + max(base.num_runs, new.num_runs) - fewest
        purpose = "makes runs that should decide, if the true difference is as measured"
        return resume_command(_from_here(new.place), total), purpose
    folders = [group.file.parent] if group is not None and is_pair else [base.place, new.place]
    places = [str(_from_here(folder)) for folder in folders]
    return shlex.join(["dlrmbench", "report", *places, "--summary"]), _TO_DECIDE


def _from_here(folder: Path) -> Path:
    """Return a folder's path for a command: relative to the working directory if the folder is below it, else the
    full path; a link, which may change later, is resolved."""
    folder = real_path(folder) if folder.is_symlink() else folder
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
