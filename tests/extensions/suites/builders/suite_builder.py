"""Suites whose sides measured what is drawn, in turns, as `read_rows` reads them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from measured_builder import write_measured
from numpy.typing import NDArray

from reports.comparison.sweep import SweepRow
from reports.results.measured import read_measured
from reports.results.result import Repetition, Result

RATE = 1e5


def make_template(folder: Path) -> Result:
    """One measurement, whose processes are replaced by what is drawn."""
    return replace(
        read_measured(write_measured(folder / "set", "throughput", [RATE] * 5), "throughput"), turns="suite"
    )


def make_suite(
    template: Result, rates: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]
) -> list[tuple[SweepRow, SweepRow]]:
    """The sides of every benchmark, by the rates of base's processes and of new's."""
    return [
        (_side(template, number, "base", base), _side(template, number, "new", new))
        for number, (base, new) in enumerate(rates)
    ]


def _side(template: Result, number: int, side: str, rates: NDArray[np.float64]) -> SweepRow:
    processes = tuple(
        Repetition(label=str(seed), seed=seed, values={"throughput": float(rate)}, fate="counted")
        for seed, rate in enumerate(rates)
    )
    return SweepRow(
        index=2 * number + (side == "new"),
        label=f"benchmark {number}, {side}",
        values=(f"benchmark {number}", side),
        failure=None,
        num_planned=len(rates),
        result=replace(template, label=f"benchmark {number}, {side}", repetitions=processes, known={}),
    )
