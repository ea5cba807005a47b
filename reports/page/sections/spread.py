"""Makes the section on the noise of sets before any comparison: the shares of convergence, speed and overhead in the
spread of times, and the detectable difference."""

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from reports.comparison.comparison import GroupContext
from reports.comparison.drift_tolerance import DriftTolerance
from reports.comparison.noise import find_tolerances, noise_of_runs
from reports.document.blocks import Block, Cell, Prose, Table, numeric, table_of
from reports.facts.noise import Noise
from reports.page.figures.detail import detail_words, detailed
from reports.parts.noise import _UNSEEN, POWER, assumptions, shares_words, size_text, turns_text
from reports.results.result import Result
from reports.statistics.intervals import MIN_RUNS, LogSummary
from reports.text.formatting import names, percent, plural, printable
from rules.records.experiment import resume_command

_MAX_NAMES = 12
_whole_percent = partial(percent, digits=0)


def spread_blocks(group: Sequence[Result], context: GroupContext, id_: str) -> tuple[Block, ...]:
    """Return blocks on the spread of the sets' times: the shares of convergence, speed and overhead in it, the
    differences that can be detected, the number of runs missing for a verdict, and the assumptions."""
    shown = detailed(group)
    tolerances = find_tolerances(shown, context.repeats)
    found = [
        _SetNoise(result, noise_of_runs(result, tolerance))
        for result, tolerance in zip(shown, tolerances, strict=True)
    ]
    blocks: list[Block] = []
    if len(found) == 1:
        ((result, noise),) = found
        blocks.append(Prose(text=_lead(result, noise)))
        if noise.time or noise.throughput:
            blocks.append(_table_of_one(result, noise, id_))
    else:
        text = "Spread of each set's times by cause, and the difference that two sets of equal spread could show."
        blocks += [Prose(text=f"{text} {_elsewhere(group)}".rstrip()), _table(found, id_)]
    return (*blocks, *(Prose(text=text, kind="note") for text in _notes(found, tolerances)))


def _elsewhere(group: Sequence[Result]) -> str:
    words = detail_words(group)
    return f"{words} 'dlrmbench score PATH' has the detectable differences of all." if words else ""


def _lead(result: Result, noise: Noise) -> str:
    spread, texts = result.summary("time_to_train_s"), []
    if noise.shares is not None:
        varies = percent(spread.coefficient_of_variation if spread else None)
        texts.append(f"Causes of the spread of the times to train (CV {varies}): {shares_words(noise.shares)}.")
    if noise.time is not None:
        turns = noise.time.in_turns
        texts.append(
            f"The detectable difference in time to train ({POWER}) between two sets of {noise.num_runs} runs like "
            f"these is {size_text(noise.time.apart)} if one set is measured after the other."
        )
        if turns is not None:
            told = turns_text(noise.time, "95 % range ")
            texts.append(f"If runs alternate (A/B) with shared seeds, the detectable difference is {told}.")
    elif noise.num_runs < MIN_RUNS:
        reached = f"{noise.num_runs} of {plural(len(result.runs), 'run')} reached the target"
        texts.append(f"{reached}; a verdict takes at least {MIN_RUNS} on each side.")
        root = result.judged.result_set.root if result.judged and result.judged.result_set.is_run_set else None
        if root is not None:
            total = len(result.runs) + MIN_RUNS - noise.num_runs
            texts.append(f"'{printable(resume_command(root, total))}' makes the missing runs.")
    return " ".join(texts) or "The logs do not say what the times are made of."


class _SetNoise(NamedTuple):
    """Result set with the noise of its runs (spread and detectable difference)."""

    result: Result
    noise: Noise

    @property
    def spread(self) -> LogSummary | None:
        return self.result.summary("time_to_train_s")


def _table_of_one(result: Result, noise: Noise, id_: str) -> Table:
    rows = (
        ("Time to train", noise.time, result.summary("time_to_train_s")),
        ("Throughput", noise.throughput, result.summary("throughput_samples_per_s")),
    )
    return table_of(
        rows,
        (
            ("Difference in", itemgetter(0)),
            (numeric("Later set", "detectable"), itemgetter(1), lambda smallest: size_text(smallest.apart)),
            (numeric("Alternately", "detectable"), itemgetter(1), turns_text),
            (numeric("Spread", "CV of runs"), itemgetter(2), lambda spread: percent(spread.coefficient_of_variation)),
        ),
        id_=id_,
        caption=f"Detectable differences ({POWER}) of two sets of {noise.num_runs} runs",
    )


def _table(found: Sequence[_SetNoise], id_: str) -> Table:
    return table_of(
        found,
        (
            ("Configuration", lambda one: Cell(text=one.result.label, sub=plural(one.noise.num_runs, "run"))),
            (numeric("Time, later set", "detectable"), "noise.time.apart", size_text),
            (numeric("Time, alternately", "detectable"), "noise.time.in_turns", size_text),
            (numeric("Throughput, later set", "detectable"), "noise.throughput.apart", size_text),
            (numeric("Throughput, alternately", "detectable"), "noise.throughput.in_turns", size_text),
            (numeric("Spread", "CV of times"), "spread.coefficient_of_variation", percent),
            (numeric("Convergence", "share of spread"), "noise.shares.convergence", _whole_percent),
            (numeric("Speed", "share of spread"), "noise.shares.speed", _whole_percent),
            (numeric("Evaluation, overhead", "share of spread"), "noise.shares.overhead", _whole_percent),
        ),
        id_=id_,
        caption=f"Detectable differences ({POWER}) between two sets like each, and the spread of times by cause",
        is_sortable=True,
    )


def _notes(found: Sequence[_SetNoise], tolerances: Sequence[DriftTolerance]) -> list[str]:
    notes = []
    few = [f"{result.label} ({noise.num_runs})" for result, noise in found if noise.num_runs < MIN_RUNS]
    if few and len(found) > 1:
        text = f"A verdict takes at least {MIN_RUNS} runs on each side that reached the target. Fewer such runs have"
        notes.append(f"{text} {names(few, _MAX_NAMES)}.")
    parts = [(shares.convergence, shares.speed, shares.overhead) for _, noise in found if (shares := noise.shares)]
    if len(found) > 1 and any(share < -_UNSEEN for shares in parts for share in shares):
        notes.append("A cause with a negative share of the spread offsets other causes.")
    known = [noise.num_runs for _, noise in found if noise.time or noise.throughput]
    return [*notes, *([assumptions(min(known), tolerances)] if known else [])]
