"""How `score` shows results: the score with its uncertainty, and the factors that it is made of."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import click

from harness.cli.escaping import markdown_safe, spreadsheet_safe
from harness.cli.table import printable, style
from reports.page.figures.cost import cost_text, cost_to_train
from reports.statistics.intervals import coverage_words, log_summary, olympic_interval
from reports.text.formatting import count, duration, percent, throughput_text
from rules.benchmarks.loader import load_benchmark, shipped_names
from rules.checks.verdict import Verdict
from rules.scoring.results import BenchmarkResult, RunResult
from rules.tree.result_set import ResultSet

UNVERIFIED = "unverified: result not verified by MLCommons Association"
OWN = "not an MLPerf result: a benchmark of its own"
Record = dict[str, Any]


def describe_score(
    result_set: ResultSet,
    result: BenchmarkResult,
    price_per_hour: float | None = None,
    verdict: Verdict | None = None,
) -> Record:
    """One set's score as plain values in SI units; None is not known or does not exist."""
    converged = [run for run in result.runs if run.converged]
    times_s = [run.time_to_train_s for run in converged if run.time_to_train_s is not None]
    is_whole = result.olympic_mean_s is not None and len(times_s) == len(result.runs)
    bounds = olympic_interval(times_s, result.num_runs_dropped) if is_whole else None
    return {
        "path": printable(result_set.folder),
        "benchmark": result.benchmark,
        "round": result.round,
        "standing": _standing(result.benchmark),
        "verdict": verdict.outcome if verdict is not None else None,
        "num_errors": verdict.count("error") if verdict is not None else None,
        "num_runs": len(result.runs),
        "num_runs_required": result.num_runs_required,
        "num_converged": len(converged),
        "score_s": result.score_s,
        "olympic_mean_s": result.olympic_mean_s,
        "interval_low_s": bounds.low if bounds is not None else None,
        "interval_high_s": bounds.high if bounds is not None else None,
        "interval_confidence": bounds.confidence if bounds is not None else None,
        "interval_coverage": bounds.coverage if bounds is not None else None,
        "no_interval_reason": None if bounds is not None else _why_no_interval(result, len(times_s)),
        "dropped": [_name(result.runs[index]) for index in result.dropped],
        "samples_to_converge": _summary([run.samples_to_converge for run in converged]),
        "throughput_samples_per_s": _summary([run.throughput_samples_per_s for run in converged]),
        "overhead_ratio": _summary([_overhead_ratio(run) for run in converged]),
        "rcp_outcome": result.rcp_outcome,
        "rcp_reason": result.rcp_reason,
        "rcp_factor": result.rcp_factor,
        "no_score_reason": result.no_score_reason,
        "price_per_hour": price_per_hour,
        "cost_to_train": cost_to_train(result.olympic_mean_s, price_per_hour),
        "runs": [
            {"file": _name(run), "converged": run.converged, "time_to_train_s": run.time_to_train_s, "seed": run.seed}
            for run in result.runs
        ],
    }


def _why_no_interval(result: BenchmarkResult, num_times: int) -> str | None:
    """Why an Olympic mean stands without its interval; None where there is no mean either."""
    if result.olympic_mean_s is None:
        return None
    if num_times < len(result.runs):
        return "a run did not converge, and resampling it would make infinite means"
    return f"{len(result.runs)} runs are too few to be resampled"


def _standing(benchmark: str | None) -> str | None:
    if benchmark is None or benchmark not in shipped_names():
        return OWN if benchmark is not None else None
    return UNVERIFIED if load_benchmark(benchmark).status == "official" else OWN


def _name(run: RunResult) -> str:
    return printable(run.path.replace("\\", "/").rsplit("/", 1)[-1])


def _overhead_ratio(run: RunResult) -> float | None:
    """1 + overhead / training time."""
    return run.time_to_train_s / run.train_s if run.time_to_train_s is not None and run.train_s else None


def _summary(values: Sequence[float | int | None]) -> dict[str, float | None] | None:
    found = log_summary(values)
    if found is None:
        return None
    return {"geometric_mean": found.geometric_mean, "coefficient_of_variation": found.coefficient_of_variation}


def echo_scores(records: Sequence[Record]) -> None:
    for record in records:
        name = printable(record["benchmark"] or "unknown benchmark")
        round_name = f", round {record['round']}" if record["round"] else ""
        click.echo(f"{style(name, bold=True)}{round_name}  {record['path']}")
        for label, text in _rows(record):
            click.echo(f"  {label:<22}{text}")
        click.echo()


def _rows(record: Record) -> list[tuple[str, str]]:
    rows = [("score", f"none: {printable(record['no_score_reason'])}")]
    if record["score_s"] is not None:
        minutes = f"{record['score_s'] / 60:.6f} min" if record["standing"] == UNVERIFIED else ""
        rows = [("score", f"{duration(record['score_s'])}{f' = {minutes}' if minutes else ''}")]
    if record["verdict"] == "invalid":
        rows.append(("verdict", f"INVALID: {record['num_errors']} errors; see 'dlrmbench check'"))
    if record["standing"]:
        rows.append(("standing", record["standing"]))
    rows.append(("runs", f"{record['num_converged']} of {record['num_runs']} reached the target"))
    if record["olympic_mean_s"] is not None:
        rows.append(
            ("Olympic mean", f"{duration(record['olympic_mean_s'])}; dropped: {', '.join(record['dropped'])}")
        )
    if record["interval_low_s"] is not None:
        coverage = record["interval_coverage"]
        simulated = f"; {coverage_words(coverage, record['num_runs'])}" if coverage is not None else ""
        rows.append(
            (
                f"{record['interval_confidence']:.0%} interval",
                f"{duration(record['interval_low_s'])} to {duration(record['interval_high_s'])}"
                f" (bootstrap over runs{simulated})",
            )
        )
    elif record["no_interval_reason"] is not None:
        rows.append(("95% interval", f"none: {record['no_interval_reason']}"))
    for label, key, show in (
        ("samples to converge", "samples_to_converge", count),
        ("throughput", "throughput_samples_per_s", throughput_text),
        ("overhead factor", "overhead_ratio", _ratio),
    ):
        if (summary := record[key]) is not None:
            spread = summary["coefficient_of_variation"]
            varies = f", coefficient of variation {percent(spread)}" if spread is not None else ""
            rows.append((label, f"{show(summary['geometric_mean'])} (geometric mean{varies})"))
    if record["cost_to_train"] is not None:
        price = f"{record['price_per_hour']:g}"
        rows.append(
            ("cost to train", f"{cost_text(record['cost_to_train'])} (derived: Olympic mean at {price} per hour)")
        )
    if record["rcp_outcome"]:
        factor = f"; factor {record['rcp_factor']:.10g}" if record["rcp_factor"] is not None else ""
        rows.append(("RCP", f"{record['rcp_outcome']}{factor} ({printable(record['rcp_reason'])})"))
    return rows


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


_COLUMNS = (
    "path", "benchmark", "round", "standing", "verdict", "num_runs", "num_runs_required", "num_converged", "score_s",
    "olympic_mean_s", "interval_low_s", "interval_high_s", "samples_to_converge", "throughput_samples_per_s",
    "overhead_ratio", "rcp_outcome", "rcp_factor", "no_score_reason", "price_per_hour", "cost_to_train",
)  # fmt: skip


def _cells(record: Record) -> list[Any]:
    values = [record[name] for name in _COLUMNS]
    return [value["geometric_mean"] if isinstance(value, dict) else value for value in values]


def score_csv(records: Sequence[Record]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for record in records:
        writer.writerow([spreadsheet_safe(value) for value in _cells(record)])
    return out.getvalue()


def score_markdown(records: Sequence[Record]) -> str:
    """One row per set."""
    prices = {record["price_per_hour"] for record in records if record["price_per_hour"] is not None}
    cost_name = f" cost at {min(prices):g} per hour |" if prices else ""
    lines = [
        f"| result set | benchmark | score | Olympic mean | 95 % interval | RCP factor | runs |{cost_name} note |",
        f"|---|---|---:|---:|---:|---:|---:|{'---:|' if prices else ''}---|",
    ]
    for record in records:
        factor = record["rcp_factor"]
        cells = (
            record["path"],
            record["benchmark"] or "unknown",
            duration(record["score_s"]) if record["score_s"] is not None else "none",
            duration(record["olympic_mean_s"]) if record["olympic_mean_s"] is not None else "none",
            _bounds(record),
            "-" if factor is None else f"{factor:.6f}",
            f"{record['num_converged']}/{record['num_runs']}",
            *([cost_text(record["cost_to_train"])] if prices else []),
            ("INVALID; " if record["verdict"] == "invalid" else "")
            + (record["no_score_reason"] or record["standing"] or ""),
        )
        lines.append("| " + " | ".join(markdown_safe(str(cell)) for cell in cells) + " |")
    return "\n".join(lines)


def _bounds(record: Record) -> str:
    if record["interval_low_s"] is None:
        return "none" if record["no_interval_reason"] is None else f"none: {record['no_interval_reason']}"
    return f"{duration(record['interval_low_s'])} to {duration(record['interval_high_s'])}"
