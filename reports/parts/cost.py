"""Makes columns and key numbers of a result's energy, which was measured, and of its cost to train, which is computed
from time and price."""

import math
from collections.abc import Callable, Iterator, Sequence

from reports.document.blocks import Cell, Fact, TableColumn, numeric
from reports.facts.energy import energy_per_sample_j, energy_text, mean_energy_j, source_words
from reports.results.result import Result
from reports.text.formatting import MISSING
from rules.records.run import EnergyRecord


def energy_records(result: Result) -> tuple[EnergyRecord | None, ...]:
    """Return the energy record of each run or process of a result, in their order; None where energy was not
    recorded."""
    return tuple(getattr(repetition.record, "energy", None) for repetition in result.repetitions)


def cost_to_train(mean_s: float | None, price_per_hour: float | None) -> float | None:
    """Return the cost to train, which is computed, not measured: the Olympic mean time in seconds times the price per
    hour, in the price's currency. None if time or price is unknown, or if the mean is infinite because too many runs
    did not converge.

    The cost is not computed from the score. The score may be lengthened by an RCP (reference convergence point)
    factor to make scores comparable, but nobody pays for the added minutes.
    """
    if mean_s is None or price_per_hour is None or not math.isfinite(mean_s):
        return None
    return mean_s / 3600.0 * price_per_hour


def cost_text(cost: float | None) -> str:
    """Format a cost with four significant digits, as costs may be a thousandth of a currency unit or thousands of
    units; from 10,000 on, format it as a whole number."""
    return MISSING if cost is None else f"{cost:,.4g}" if cost < 1e4 else f"{cost:,.0f}"


def energy_source(result: Result) -> str | None:
    """Return the names of the counters or commands that measured the energy of all runs or processes of a result;
    None unless the energy of each of them was measured."""
    if mean_energy_j(result) is None:
        return None
    return "; ".join(sorted({source_words(each) for each in energy_records(result) if each and each.parts}))


def energy_fact(result: Result) -> Fact | None:
    """Return the mean energy of a result's runs or processes as a named value, with what measured it; None unless the
    energy of each of them was measured."""
    energy_j, per_sample_j = mean_energy_j(result), energy_per_sample_j(result)
    if energy_j is None:
        return None
    each = "" if per_sample_j is None else f"{per_sample_j:.3g} J/sample, {1 / per_sample_j:.3g} samples/J; "
    value, _, unit = energy_text(energy_j).rpartition(" ")
    name = f"Energy per {'run' if result.is_logged else 'process'}"
    return Fact(name=name, value=value, unit=unit, note=f"{each}measured by {energy_source(result)}")


def energy_columns(group: Sequence[Result]) -> Iterator[tuple[TableColumn, Callable[[Result], Cell]]]:
    """Yield two table columns, mean energy per run or process and samples per joule; none where no configuration's
    energy was measured."""
    if any(mean_energy_j(result) is not None for result in group):
        each = "run" if group[0].is_logged else "process"
        yield numeric("Energy", f"measured; mean per {each}"), _energy_cell
        yield numeric("Samples/J", "measured; samples per joule"), _efficiency_cell


def cost_numbers(result: Result) -> tuple[Fact, ...]:
    """Return a result's energy and cost to train as key numbers; each is left out where it is unknown."""
    energy, found = energy_fact(result), []
    if energy is not None:
        found.append(energy)
    cost = cost_to_train(result.score.olympic_mean_s, result.price_per_hour)
    if cost is not None:
        found.append(
            Fact(
                name="Cost to train",
                value=cost_text(cost),
                unit=result.currency or "in the price's currency",
                note=f"derived: Olympic mean × the given price of {_price_text(result)} per hour",
            )
        )
    return tuple(found)


def cost_columns(group: Sequence[Result]) -> Iterator[tuple[TableColumn, Callable[[Result], Cell]]]:
    """Yield table columns of energy and of cost to train, each with the function that makes a cell. The energy
    columns exist only if some result's energy was measured, the cost column only if some price is known."""
    yield from energy_columns(group)
    prices = {result.price_per_hour: result for result in group if result.price_per_hour is not None}
    if prices:
        text = " or ".join(_price_text(prices[price]) for price in sorted(prices))
        yield numeric("Cost", f"derived: Olympic mean × {text} per hour"), _cost_cell


def _energy_cell(result: Result) -> Cell:
    energy_j = mean_energy_j(result)
    return Cell(text=energy_text(energy_j), sort="" if energy_j is None else f"{energy_j:.6g}")


def _efficiency_cell(result: Result) -> Cell:
    per_sample_j = energy_per_sample_j(result)
    return Cell(text=MISSING if per_sample_j is None else f"{1 / per_sample_j:.3g}")


def _cost_cell(result: Result) -> Cell:
    cost = cost_to_train(result.score.olympic_mean_s, result.price_per_hour)
    return Cell(text=cost_text(cost) if cost is None else f"{cost_text(cost)} {result.currency}".rstrip())


def _price_text(result: Result) -> str:
    return f"{result.price_per_hour:g} {result.currency}".rstrip()
