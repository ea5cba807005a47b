"""Measurements of throughput alone, as `run --throughput` leaves them: extra/throughput.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.facts.extras import read_run_set, software_of
from reports.facts.sides import HARDWARE, Sample, Side
from reports.facts.traffic import Exchange, read_exchange
from reports.facts.untrusted import as_list, as_mapping, positive_of, read_json, text_of, whole_of
from reports.text.formatting import printable
from rules.errors import InputError

_FILE = Path("extra") / "throughput.json"
_CLOCK_STEP_S = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputSet:
    """One measurement; `rates` are samples per second, one per fresh process."""

    folder: Path
    benchmark: str | None
    system: str | None
    data_kind: str | None
    samples: tuple[Sample, ...]
    rates: tuple[float, ...]
    exchanges: tuple[Exchange, ...] = ()
    """Of the processes that had several ranks."""


def read_throughput(folder: Path) -> ThroughputSet:
    """What extra/throughput.json says. Raises InputError where it holds no measurement."""
    problems: list[str] = []
    content = read_json(folder / _FILE, problems)
    record = read_json(folder / "extra" / "run_set.json", problems)
    seeds = as_list(record.get("seeds"))
    samples, rates, exchanges = [], [], []
    for index, process in enumerate(map(as_mapping, as_list(content.get("processes")))):
        number, took_s = positive_of(process, "num_samples"), positive_of(process, "duration_s")
        if number is None or took_s is None:
            continue
        samples.append(
            _sample(number, took_s, whole_of({"seed": seeds[index]}, "seed") if index < len(seeds) else None)
        )
        rates.append(number / took_s)
        if (exchange := read_exchange(process.get("exchange"))) is not None:
            exchanges.append(exchange)
    if not samples:
        why = problems[0] if problems else f"{printable(folder / _FILE)}: holds no measured process."
        raise InputError(f"{why} Measure again with 'dlrmbench run --throughput STEPS'.")
    return ThroughputSet(
        folder=folder,
        benchmark=text_of(as_mapping(record.get("benchmark")), "name"),
        system=text_of(as_mapping(record.get("system")), "name"),
        data_kind=text_of(content, "data_kind"),
        samples=tuple(samples),
        rates=tuple(rates),
        exchanges=tuple(exchanges),
    )


def throughput_side(folder: Path) -> Side:
    """The side that a measurement makes: its processes are its runs."""
    measured = read_throughput(folder)
    problems: list[str] = []
    record = read_json(folder / "extra" / "run_set.json", problems)
    fields = as_mapping(as_mapping(record.get("system")).get("fields"))
    return Side(
        label=printable(folder.resolve().name, 80),
        kind="throughput",
        status="own",
        benchmark=measured.benchmark,
        samples=measured.samples,
        runs=(),
        num_runs=len(measured.samples),
        system=measured.system,
        hardware=tuple((key, text) for key in HARDWARE if (text := text_of(fields, key)) is not None),
        settings=_settings(measured, record),
    )


def _settings(measured: ThroughputSet, record: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    named = (("benchmark", measured.benchmark), ("data_kind", measured.data_kind))
    known = tuple((name, value) for name, value in named if value is not None)
    run_set = read_run_set(record)
    return (*known, *((value.key, value.value) for value in run_set.config), *software_of(run_set))


def _sample(num_samples: float, took_s: float, seed: int | None) -> Sample:
    return Sample(
        seed=seed,
        time_to_train_s=None,
        train_s=took_s,
        num_samples=num_samples,
        time_step=0.0,
        samples_step=0.0,
        clock_step=min(_CLOCK_STEP_S / took_s, 1.0),
    )
