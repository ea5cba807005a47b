"""Before anybody compares: where the spread of a set comes from, and how large a difference such sets could show."""

import math
from collections.abc import Sequence

from reports.comparison.band import Band, band_source
from reports.comparison.comparison import GroupContext
from reports.comparison.factor import factor_of
from reports.comparison.noise import ASSUMED, MIN_EFFECT, find_bands, noise_of_runs
from reports.document.blocks import Block, Cell, Prose, Table, numeric, table_of
from reports.facts.noise import DRIFT_BAND, Noise, Shares, Smallest, spread_reach
from reports.page.figures.detail import detail_words, detailed
from reports.results.result import Result
from reports.statistics.intervals import MIN_RUNS, LogSummary
from reports.text.formatting import MISSING, percent, plural

_MAX_NAMES = 12
_FOUND = "found in 80 % of cases"
_UNSEEN = 0.005
"""A share that is printed as 0 %."""


def spread_blocks(group: Sequence[Result], context: GroupContext, id_: str) -> tuple[Block, ...]:
    """What the spread is made of, the smallest differences, what is missing and what is assumed."""
    shown = detailed(group)
    bands = find_bands(shown, context.repeats)
    found = [(result, noise_of_runs(result, band)) for result, band in zip(shown, bands, strict=True)]
    blocks: list[Block] = []
    if len(found) == 1:
        ((result, noise),) = found
        blocks.append(Prose(text=_lead(result, noise)))
        if noise.time or noise.throughput:
            blocks.append(_table_of_one(result, noise, id_))
    else:
        blocks.append(
            Prose(
                text="What the spread of each set's times is made of, and the smallest difference that two such sets "
                f"show. {_elsewhere(group)}".rstrip()
            )
        )
        blocks.append(_table(found, id_))
    return (*blocks, *(Prose(text=text, kind="note") for text in _notes(found, bands)))


def _elsewhere(group: Sequence[Result]) -> str:
    words = detail_words(group)
    return f"{words} 'dlrmbench score PATH' has it of all." if words else ""


def size_text(fraction: float | None) -> str:
    """A difference as percent with two digits at least: '31 %', '8.2 %'; infinite is beyond a factor of 100."""
    if fraction == math.inf:
        return "over 100×"
    return percent(fraction, 0 if fraction is not None and fraction >= 0.0995 else 1)


def smallest_words(smallest: Smallest) -> str:
    """'38 % in a later set, 7.8 % in turns (80 % of cases)'."""
    turns = "" if smallest.in_turns is None else f", {size_text(smallest.in_turns)} in turns"
    return f"{size_text(smallest.apart)} in a later set{turns} (80 % of cases)"


def assumptions(num_runs: int, bands: Sequence[Band]) -> str:
    """What the smallest differences of sets of `num_runs` runs rest on, between which drift may do `bands`."""
    return (
        "Found is a true difference that is called faster or slower, by the strictest of Holm's levels over four "
        f"factors (95 %); none below {percent(MIN_EFFECT, 0)} is. {_statistics(num_runs, 'runs')} {_drift(bands)} "
        "In turns: runs of equal seeds take turns ('dlrmbench run --beside SET'), so that drift meets both alike, "
        "and equal seeds need equal samples, as where the settings change the speed alone."
    )


def measured_assumptions(measured: Result, band: Band = ASSUMED) -> str:
    """As `assumptions`, of the processes of a measurement; also where they are too few."""
    number, factor = measured.num_runs, factor_of(measured.quantities[0])
    if number < MIN_RUNS:
        return f"A verdict takes at least {MIN_RUNS} processes on each side."
    is_ratio = factor.is_ratio
    least = percent(factor.min_effect, 0) if is_ratio else f"{factor.min_effect:g}"
    found = (
        f"The smallest difference is the true one that gets a verdict in 80 % of cases, by one test at 95 %; none "
        f"below {least} gets one. {_statistics(number, 'processes')}"
    )
    if is_ratio:
        turns = "In turns: the processes take turns, as in a sweep, so that drift meets both alike."
        return f"{found} {_drift([band])} {turns}"
    return f"{found} Pairs of equal seeds show smaller ones, as far as equal seeds share their luck."


def _drift(bands: Sequence[Band]) -> str:
    """How far a set that is measured later may drift, and how that is known."""
    assumed = f"{percent(DRIFT_BAND, 0)} ({band_source(())})"
    sets = tuple(dict.fromkeys(label for band in bands for label in band.sets))
    far = assumed if not sets else f"what repeated sets show ({band_source(sets)})"
    if sets and not all(band.sets for band in bands):
        far += f", the others by {percent(DRIFT_BAND, 0)}"
    return (
        f"In a later set: the system may drift by {far}, or by twice the spread of speed inside a set where that is "
        "more, and a difference must exceed it."
    )


def _statistics(number: int, what: str) -> str:
    low, high = spread_reach(number)
    return (
        f"Assumed: as many {what} on the other side, of the same spread and normal. The spread itself is known from "
        f"{number} {what} only to a factor of {low:.1f} to {high:.1f}."
    )


def _lead(result: Result, noise: Noise) -> str:
    spread, texts = result.summary("time_to_train_s"), []
    if noise.shares is not None:
        texts.append(f"The spread of the times (CV {_varies(spread)}) is {shares_words(noise.shares)}.")
    if noise.time is not None:
        turns = noise.time.in_turns
        in_turns = "" if turns is None else f"; in turns, with shared seeds, of {size_text(turns)}"
        texts.append(
            f"Two sets of {noise.num_runs} such runs, one measured after the other, show a difference in time to "
            f"train of {size_text(noise.time.apart)} and more{in_turns}."
        )
    elif noise.num_runs < MIN_RUNS:
        reached = f"{noise.num_runs} of {plural(len(result.runs), 'run')} reached the target"
        texts.append(f"{reached}; a verdict takes at least {MIN_RUNS} on each side.")
        if result.judged and result.judged.result_set.is_run_set:
            total = len(result.runs) + MIN_RUNS - noise.num_runs
            texts.append(f"'dlrmbench resume DIR --runs {total}' makes what is missing.")
    return " ".join(texts) or "The logs do not say what the times are made of."


def shares_words(shares: Shares) -> str:
    """'96 % convergence, 3 % speed, 1 % evaluation and overhead'; 'less 2 % …' of what works against the others."""
    parts = (
        (shares.convergence, "convergence"),
        (shares.speed, "speed"),
        (shares.overhead, "evaluation and overhead"),
    )
    added = [f"{percent(share, 0)} {name}" for share, name in parts if share >= -_UNSEEN]
    less = [f"{percent(-share, 0)} {name}" for share, name in parts if share < -_UNSEEN]
    against = f", less {' and '.join(less)}, which worked against the others" if less else ""
    return f"{', '.join(added)}{against}"


def _table_of_one(result: Result, noise: Noise, id_: str) -> Table:
    rows = (
        ("Time to train", noise.time, result.summary("time_to_train_s")),
        ("Throughput", noise.throughput, result.summary("throughput_samples_per_s")),
    )
    return table_of(
        rows,
        (
            ("Difference in", lambda row: row[0]),
            (numeric("In a later set", "smallest found"), lambda row: _apart(row[1])),
            (numeric("In turns", "smallest found"), lambda row: _in_turns(row[1])),
            (numeric("Spread", "CV of runs"), lambda row: _varies(row[2])),
        ),
        id_=id_,
        caption=f"The smallest differences between two sets of {noise.num_runs} such runs that are {_FOUND}",
    )


def _table(found: Sequence[tuple[Result, Noise]], id_: str) -> Table:
    def share(name: str, entry: tuple[Result, Noise]) -> str:
        return MISSING if entry[1].shares is None else percent(getattr(entry[1].shares, name), 0)

    return table_of(
        found,
        (
            ("Configuration", lambda entry: Cell(text=entry[0].label, sub=plural(entry[1].num_runs, "run"))),
            (numeric("Time, later set", "smallest found"), lambda entry: _apart(entry[1].time)),
            (numeric("Time, in turns", "smallest found"), lambda entry: _in_turns(entry[1].time)),
            (numeric("Throughput, later set", "smallest found"), lambda entry: _apart(entry[1].throughput)),
            (numeric("Throughput, in turns", "smallest found"), lambda entry: _in_turns(entry[1].throughput)),
            (numeric("Spread", "CV of times"), lambda entry: _varies(entry[0].summary("time_to_train_s"))),
            (numeric("Convergence", "share of it"), lambda entry: share("convergence", entry)),
            (numeric("Speed", "share of it"), lambda entry: share("speed", entry)),
            (numeric("Evaluation, overhead", "share of it"), lambda entry: share("overhead", entry)),
        ),
        id_=id_,
        caption=f"The smallest differences between two such sets that are {_FOUND}, and the parts of the spread",
        is_sortable=True,
    )


def _varies(summary: LogSummary | None) -> str:
    return percent(summary.coefficient_of_variation if summary else None)


def _apart(smallest: Smallest | None) -> str:
    return size_text(smallest.apart if smallest else None)


def _in_turns(smallest: Smallest | None) -> str:
    return size_text(smallest.in_turns if smallest else None)


def _notes(found: Sequence[tuple[Result, Noise]], bands: Sequence[Band]) -> list[str]:
    notes = []
    few = [f"{result.label} ({noise.num_runs})" for result, noise in found if noise.num_runs < MIN_RUNS]
    if few and len(found) > 1:
        text = f"A verdict takes at least {MIN_RUNS} runs that reached the target on each side. Fewer have"
        more = f" and {len(few) - _MAX_NAMES} more" if len(few) > _MAX_NAMES else ""
        notes.append(f"{text} {', '.join(few[:_MAX_NAMES])}{more}.")
    parts = [(shares.convergence, shares.speed, shares.overhead) for _, noise in found if (shares := noise.shares)]
    if len(found) > 1 and any(share < -_UNSEEN for shares in parts for share in shares):
        notes.append("A negative share works against the others.")
    known = [noise.num_runs for _, noise in found if noise.time or noise.throughput]
    return [*notes, *([assumptions(min(known), bands)] if known else [])]
