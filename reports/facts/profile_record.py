"""extra/profile.json as the reports use it. The file may come from anyone: what does not fit reads as not known."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from reports.facts.untrusted import as_list, as_mapping, items_of, positive_of, read_json, text_of, whole_of
from reports.text.formatting import count, num_bytes, printable

_FILE = Path("extra") / "profile.json"
_MAX_PROFILES = 20
_MAX_ROWS = 100
_AUTOGRAD = "autograd::engine::evaluate_function: "
BOUNDS = ("compute", "memory", "gather", "overhead")
LIMITS = ("matmul", "matmul_median", "matmul_best_shape", "all_phases")


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseRow:
    """One phase of a step: time measured, all else computed. None where something is not known."""

    name: str
    label: str
    time_s: float | None
    share: float | None
    flop: float
    bytes: float | None
    flop_per_byte: float | None
    flop_per_s: float | None
    bytes_per_s: float | None
    rows_per_s: float | None
    ceiling_fraction: float | None
    bound: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitRow:
    """The speed of a step at some ceilings."""

    name: str
    samples_per_s: float | None
    fraction: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CeilingRow:
    """One measured ceiling."""

    name: str
    size: str
    detail: str
    unit: str
    best: float | None
    median: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorRow:
    """One operator under torch.profiler; FLOP and bytes are per call and computed."""

    name: str
    shapes: str
    calls_per_step: float | None
    self_s: float | None
    share: float | None
    flop: float | None
    bytes: float | None

    @property
    def call_s(self) -> float | None:
        return self.self_s / self.calls_per_step if self.self_s and self.calls_per_step else None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileRecord:
    """One profile."""

    benchmark: str
    implementation: str
    device: str
    precision: str
    num_threads: int | None
    batch_size: int | None
    num_steps: int | None
    step_s: float | None
    fastest_step_s: float | None
    told_step_s: float | None
    fastest_told_step_s: float | None
    samples_per_s: float | None
    named_share: float | None
    instrumentation_cost: float | None
    instrumentation_interval: tuple[float, float] | None
    flop_per_byte: float | None
    ridge_flop_per_byte: float | None
    bound_shares: tuple[tuple[str, float], ...]
    phases: tuple[PhaseRow, ...]
    limits: tuple[LimitRow, ...]
    ceilings: tuple[CeilingRow, ...]
    matmul_flop_per_s: float | None
    memory_bytes_per_s: float | None
    cache_bytes_per_s: float | None
    operators: tuple[OperatorRow, ...]
    operator_steps: int | None
    outside_share: float | None
    eval_s: float | None
    eval_samples_per_s: float | None
    eval_flop_per_s: float | None


def read_profiles(folders: Iterable[Path]) -> tuple[ProfileRecord, ...]:
    """The profiles of these folders, different ones only, at most _MAX_PROFILES."""
    problems: list[str] = []
    records = (read_profile(folder / _FILE, problems) for folder in islice(folders, _MAX_PROFILES))
    return tuple(dict.fromkeys(record for record in records if record is not None))


def read_profile(path: Path, problems: list[str]) -> ProfileRecord | None:
    """The profile in a file; None where there is none or it has no phase. Never raises for what the file holds."""
    content = read_json(path, problems)
    if not content:
        return None
    record = parse_profile(content)
    if not record.phases:
        problems.append(f"{printable(path)}: holds no phase with a time; not used.")
        return None
    return record


def parse_profile(content: Mapping[str, Any]) -> ProfileRecord:
    measured, computed = _both(content.get("step"))
    ceilings, ridge = _both(content.get("ceilings"))
    operators, _ = _both(content.get("operators"))
    evaluated, eval_computed = _both(content.get("evaluation"))
    shares = as_mapping(computed.get("bound_shares"))
    limits = as_mapping(computed.get("limits"))
    blocks, per_block = whole_of(measured, "num_blocks"), whole_of(measured, "steps_per_block")
    copies = [_rate(entry, "bytes_per_s")[0] for entry in map(as_mapping, as_list(ceilings.get("copies")))]
    return ProfileRecord(
        benchmark=text_of(content, "benchmark", 80) or "unnamed benchmark",
        implementation=text_of(content, "implementation", 80) or "unknown",
        device=text_of(content, "device", 80) or "unknown",
        precision=text_of(content, "precision", 80) or "unknown",
        num_threads=whole_of(content, "num_threads"),
        batch_size=whole_of(content, "global_batch_size"),
        num_steps=blocks * per_block if blocks and per_block else None,
        step_s=amount_of(measured, "step_s"),
        fastest_step_s=amount_of(measured, "fastest_step_s"),
        told_step_s=amount_of(measured, "told_step_s"),
        fastest_told_step_s=amount_of(measured, "fastest_told_step_s"),
        samples_per_s=amount_of(measured, "samples_per_s"),
        named_share=amount_of(measured, "named_share"),
        instrumentation_cost=_number(measured.get("instrumentation_cost")),
        instrumentation_interval=_interval(measured.get("instrumentation_cost_interval")),
        flop_per_byte=amount_of(computed, "flop_per_byte"),
        ridge_flop_per_byte=amount_of(ridge, "ridge_flop_per_byte"),
        bound_shares=tuple((name, share) for name in BOUNDS if (share := amount_of(shares, name)) is not None),
        phases=tuple(_phases(content.get("phases"))),
        limits=tuple(
            LimitRow(
                name=name,
                samples_per_s=amount_of(as_mapping(limits.get(name)), "samples_per_s"),
                fraction=amount_of(as_mapping(limits.get(name)), "fraction"),
            )
            for name in LIMITS
            if name in limits
        ),
        ceilings=tuple(_ceilings(ceilings)),
        matmul_flop_per_s=amount_of(ridge, "best_matmul_flop_per_s"),
        memory_bytes_per_s=amount_of(ridge, "memory_bytes_per_s"),
        cache_bytes_per_s=max((rate for rate in copies if rate is not None), default=None),
        operators=tuple(_operators(operators.get("table"))),
        operator_steps=whole_of(operators, "num_steps"),
        outside_share=amount_of(operators, "outside_share"),
        eval_s=amount_of(evaluated, "duration_s"),
        eval_samples_per_s=amount_of(evaluated, "samples_per_s"),
        eval_flop_per_s=amount_of(eval_computed, "flop_per_s"),
    )


def _phases(value: object) -> Iterator[PhaseRow]:
    for entry in map(as_mapping, as_list(value)[:_MAX_ROWS]):
        measured, computed = _both(entry)
        name = text_of(entry, "phase", 40)
        if name is None:
            continue
        bound = text_of(computed, "bound", 40)
        yield PhaseRow(
            name=name,
            label=text_of(entry, "label", 40) or _readable(name),
            time_s=amount_of(measured, "time_s"),
            share=amount_of(computed, "share"),
            flop=(amount_of(computed, "matmul_flop") or 0) + (amount_of(computed, "elementwise_flop") or 0),
            bytes=amount_of(computed, "bytes"),
            flop_per_byte=amount_of(computed, "flop_per_byte"),
            flop_per_s=amount_of(computed, "flop_per_s"),
            bytes_per_s=amount_of(computed, "bytes_per_s"),
            rows_per_s=amount_of(computed, "rows_per_s"),
            ceiling_fraction=amount_of(computed, "ceiling_fraction"),
            bound=bound if bound in BOUNDS else None,
        )


def _readable(name: str) -> str:
    """'top mlp fwd' of top_mlp_forward, for a file that has no label."""
    return name.replace("_forward", " fwd").replace("_backward", " bwd").replace("_", " ")


def _ceilings(measured: Mapping[str, Any]) -> Iterator[CeilingRow]:
    for key, name in (("matmul", "matmul"), ("square", "matmul")):
        for entry in map(as_mapping, as_list(measured.get(key))[:_MAX_ROWS]):
            sizes = [whole_of(entry, size) for size in ("num", "m", "k", "n")]
            layers = [printable(one, 60) for one in as_list(entry.get("used_by"))[:6] if isinstance(one, str)]
            times = "" if sizes[0] in (1, None) else f"{sizes[0]} of "
            shape = times + "×".join(str(size) for size in sizes[1:])
            detail = ", ".join(layers) or text_of(entry, "layout", 60) or ""
            yield _ceiling(name, shape, detail, "FLOP/s", entry, "flop_per_s")
    for entry in map(as_mapping, as_list(measured.get("copies"))[:_MAX_ROWS]):
        size = whole_of(entry, "bytes")
        yield _ceiling("copy", num_bytes(size), "read and written", "B/s", entry, "bytes_per_s")
    for key, name in (("random_rows", "gather, uniform"), ("batch_rows", "gather, batches")):
        entry = as_mapping(measured.get(key))
        if entry:
            rows, row_bytes = whole_of(entry, "table_rows"), whole_of(entry, "row_bytes")
            detail = f"from {count(rows)} rows, by {text_of(entry, 'method', 40)}"
            yield _ceiling(name, f"{row_bytes} B/row", detail, "rows/s", entry, "rows_per_s")
    transfer = as_mapping(measured.get("transfer"))
    for key, name in (("to_device_bytes_per_s", "host to device"), ("to_host_bytes_per_s", "device to host")):
        # null is what a CPU has: there is nothing to copy to, and nothing was measured.
        moved = num_bytes(whole_of(transfer, "bytes"))
        yield _ceiling(name, moved, "pinned copy" if transfer else "no device", "B/s", transfer, key)


def _ceiling(name: str, size: str, detail: str, unit: str, entry: Mapping[str, Any], key: str) -> CeilingRow:
    best, median = _rate(entry, key)
    return CeilingRow(name=name, size=size, detail=detail, unit=unit, best=best, median=median)


def _operators(value: object) -> Iterator[OperatorRow]:
    for entry in map(as_mapping, as_list(value)[:_MAX_ROWS]):
        name = text_of(entry, "name", 60)
        if name is not None:
            shapes = (as_list(shape) for shape in as_list(entry.get("shapes"))[:8])
            yield OperatorRow(
                name=name.removeprefix(_AUTOGRAD),
                shapes=printable(", ".join("×".join(str(size) for size in shape[:6]) for shape in shapes), 80),
                calls_per_step=amount_of(entry, "calls_per_step"),
                self_s=amount_of(entry, "self_s_per_step"),
                share=amount_of(entry, "share"),
                flop=amount_of(entry, "flop"),
                bytes=amount_of(entry, "bytes"),
            )


def _both(value: object) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The members `measured` and `computed` of an object."""
    content = dict(items_of(value))
    return as_mapping(content.get("measured")), as_mapping(content.get("computed"))


def amount_of(content: Mapping[str, Any], key: str) -> float | None:
    """A positive number as computers have them: beyond 1e-15 to 1e25 nothing is drawn or divided."""
    value = positive_of(content, key)
    return value if value is not None and 1e-15 < value < 1e25 else None


def _rate(entry: Mapping[str, Any], key: str) -> tuple[float | None, float | None]:
    values = as_mapping(entry.get(key))
    return amount_of(values, "best"), amount_of(values, "median")


def _number(value: object) -> float | None:
    """A finite number of either sign."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e300 < value < 1e300:
        return None
    return None if math.isnan(value) else float(value)


def _interval(value: object) -> tuple[float, float] | None:
    ends = [_number(end) for end in as_list(value)[:2]]
    return (ends[0], ends[1]) if len(ends) == 2 and ends[0] is not None and ends[1] is not None else None
