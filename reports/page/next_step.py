"""Next command to run after reading a page: more runs, a comparison, or a page for a decision."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from reports.comparison.comparison import GroupContext, compare_results, context_of
from reports.document.blocks import Fact
from reports.facts.noise import is_disturbed
from reports.page.content import ReportContent
from reports.results.provenance import group_of, order_in_pair
from reports.results.reference_systems import system_of
from reports.results.result import Result
from reports.statistics.intervals import MIN_RUNS
from reports.text.formatting import plural, printable
from rules.records.experiment import resume_command

_OTHERS = {"reference": "optimized", "optimized": "reference"}
_KINDS = ("training", "throughput", "quality")
"""Kinds of measurement that every implementation of a model supports."""
_MAX_COMMAND = 400
_TO_QUIET = "names what makes this machine noisy; then measure again"
_TO_REPAIR = "lists the broken rules with their remedies"
_TO_DECIDE = "makes one page to decide by"


def next_step(content: ReportContent, *, is_brief: bool = False) -> Fact | None:
    """Return the next command, with its purpose, for a page of one or two results of this harness; None for other
    pages."""
    results = [*content.sets, *content.measured]
    is_own = all(each.asked and each.place is not None and not system_of(each) for each in results)
    if content.sweeps or content.studies or content.profiles or content.published or not is_own:
        return None
    found = _after_one(results[0]) if len(results) == 1 else _after_two(results) if len(results) == 2 else None
    if found is None or (is_brief and found[1] == _TO_DECIDE):
        return None
    command, purpose = found
    return Fact(name="Next", value=printable(command, _MAX_COMMAND), note=f" {purpose}", is_code=True)


def _after_one(result: Result) -> tuple[str, str] | None:
    """Return the next command after one result, with its purpose: list broken rules, make missing runs, or
    compare."""
    assert result.place is not None and result.asked is not None
    place, record = _from_here(result.place), result.asked
    if result.outcome == "invalid":
        return shlex.join(["dlrmbench", "check", str(place)]), _TO_REPAIR
    if is_disturbed(result):
        return "dlrmbench doctor", _TO_QUIET
    needed = result.score.num_runs_required if result.is_logged else MIN_RUNS
    if needed is not None and result.num_runs < needed:
        word = ("run", "runs") if result.is_logged else ("process", "processes")
        purpose = "a score takes" if result.is_logged else "a verdict takes on each side"
        return resume_command(place, needed), f"makes the {plural(needed, *word)} that {purpose}"
    chosen = record.config.get("runtime.implementation")
    other = None if chosen is None else _OTHERS.get(str(chosen.value))
    if result.kind not in _KINDS or other is None:
        return None
    command = shlex.join(["dlrmbench", "versus", str(place), "--implementation", other])
    return command, f"measures the {other} implementation beside it, alternately (A/B)"


def _after_two(results: Sequence[Result]) -> tuple[str, str] | None:
    """Return the next command after a comparison, with its purpose: measure alternately, add runs, or show one
    page."""
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
        return (
            None if better is None else (better, "measures both alternately (A/B), which shows smaller differences")
        )
    group = group_of(new.place)
    is_pair = group is not None and group.is_pair
    fewest = min(base.num_converged, new.num_converged)
    words = ("run", "runs") if base.is_logged else ("process", "processes")
    if is_pair and fewest < MIN_RUNS:
        total = MIN_RUNS + max(base.num_runs, new.num_runs) - fewest
        return resume_command(
            _from_here(new.place), total
        ), f"makes the {MIN_RUNS} {words[1]} a side that a verdict takes"
    needed = whole.runs_needed_low or whole.runs_needed
    if is_pair and found.verdict == "inconclusive" and needed is not None and needed > fewest:
        total = needed + max(base.num_runs, new.num_runs) - fewest
        return resume_command(_from_here(new.place), total), "should decide, if the difference is as measured"
    folders = [group.file.parent] if group is not None and is_pair else [base.place, new.place]
    places = [str(_from_here(folder)) for folder in folders]
    return shlex.join(["dlrmbench", "report", *places, "--summary"]), _TO_DECIDE


def _from_here(folder: Path) -> Path:
    """Return a folder's path relative to the working directory if the folder is below it, else the full path."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
