"""From one configuration's facts to its part of the page."""

import math

from reports.charts.figure import hue
from reports.cost import cost_numbers, energy_text, missing_energy
from reports.facts import RunFacts, SetFacts
from reports.figures import column_unit, fate_words, set_charts, sorted_cell
from reports.formatting import (
    MISSING,
    count,
    duration,
    epoch_ms,
    epochs,
    interval,
    learning_rate,
    num_bytes,
    percent,
    plural,
    printable,
    quality,
    ratio,
    short_digest,
    si,
    throughput,
    utc,
)
from reports.glossary import registered, status_line
from reports.judgement import judgement_of
from reports.statistics import log_summary
from reports.view import Badge, Cell, Column, Fact, KeyNumber, SetView, Table

_PREFLIGHT_ORDER = {"error": 0, "fail": 0, "warning": 0, "warn": 0, "unknown": 2, "ok": 3, "pass": 3}
_ICONS = {"valid": "✓", "invalid": "✕", "incomplete": "◐"}


def set_view(one: SetFacts, *, has_runs_chart: bool = True) -> SetView:
    """Everything the page says about one configuration; its runs may be drawn beside those of others already."""
    prefix = f"set{one.index + 1}"
    record = one.extras.run_set
    return SetView(
        id=prefix,
        name=one.label,
        hue=hue(one.index),
        badge=badge(one),
        headline=headline(one),
        tags=tags(one),
        numbers=key_numbers(one),
        warnings=(*_warnings(one), *one.extras.problems),
        charts=set_charts(one, prefix, has_runs_chart=has_runs_chart),
        judgement=judgement_of(one, prefix),
        runs=runs_table(one, f"{prefix}-runs"),
        environment=tuple(Fact(name=key, value=value) for key, value in record.environment) if record else (),
        preflight=_preflight(one, f"{prefix}-preflight"),
        system=_system(one, f"{prefix}-system"),
        configuration=_configuration(one, f"{prefix}-configuration"),
        reproduce=(record.command or "") if record else "",
        reproduce_facts=_reproduce(one),
        files=_files(one, f"{prefix}-files"),
        missing=_missing(one),
    )


def badge(one: SetFacts) -> Badge:
    """The verdict as icon, word and one sentence."""
    errors, warnings = one.verdict.count("error"), one.verdict.count("warning")
    words = f"{plural(errors, 'error')}, {plural(warnings, 'warning')} from the rules"
    outcome = one.verdict.outcome
    return Badge(kind=outcome, icon=_ICONS[outcome], word=outcome.upper(), words=words)


def headline(one: SetFacts) -> str:
    """The result in one sentence."""
    target = one.first_run.quality_target if one.first_run else None
    goal = f" to AUC {quality(target)}" if target is not None else ""
    if one.result.score_s is not None and math.isfinite(one.result.score_s):
        unverified = ", unverified" if one.status == "official" else ""
        return f"{one.benchmark} trained{goal} in {column_unit([one]).text(one.result.score_s)}{unverified}"
    reached = sum(run.result.converged for run in one.runs)
    return f"{one.benchmark}: {reached} of {plural(len(one.runs), 'run')} trained{goal}, no score"


def tags(one: SetFacts) -> tuple[str, ...]:
    """What kind of result this is, in a few words each."""
    first = one.first_run
    found = [f"{printable(first.division, 40)} division"] if first and first.division else []
    found.append(f"rules: {registered(printable(one.verdict.ruleset, 80))}")
    found.append(status_line(one.status))
    return tuple(found)


def key_numbers(one: SetFacts) -> tuple[KeyNumber, ...]:
    """Score, its factors and the quality reached, each with its spread."""
    converged = [run.result for run in one.runs if run.result.converged]
    numbers = [_score_number(one)]
    for name, unit, values, text in (
        ("Epochs to converge", "epochs", [run.epochs_to_converge for run in converged], epochs),
        ("Throughput", "samples/s", [run.throughput_samples_per_s for run in converged], si),
    ):
        summary = log_summary(values)
        note = "not known from the logs"
        if summary is not None:
            spread = summary.coefficient_of_variation
            note = "geometric mean" + (f", CV {percent(spread)}" if spread is not None else " of one run")
        numbers.append(
            KeyNumber(name=name, value=text(summary.geometric_mean) if summary else MISSING, unit=unit, note=note)
        )
    parts = [(run.overhead_s, run.time_to_train_s) for run in converged if run.overhead_s is not None]
    total_s = sum(time_s or 0.0 for _, time_s in parts)
    numbers.append(
        KeyNumber(
            name="Evaluation, overhead",
            value=percent(sum(part for part, _ in parts) / total_s).removesuffix(" %") if total_s else MISSING,
            unit="% of the time",
            note="of the time to train of all converged runs" if total_s else "not known from the logs",
        )
    )
    finals = [run.final_quality for run in converged if run.final_quality is not None]
    target = one.first_run.quality_target if one.first_run else None
    numbers.append(
        KeyNumber(
            name="Quality reached",
            value=quality(sum(finals) / len(finals)) if finals else MISSING,
            unit="ROC AUC",
            note=f"mean of final AUCs; target {quality(target)}" if target is not None else "no target known",
        )
    )
    needed = one.result.num_runs_required
    numbers.append(
        KeyNumber(
            name="Runs",
            value=f"{len(converged)} / {needed if needed is not None else len(one.runs)}",
            unit="reached the target" if needed is None else "converged / needed",
            note=_runs_note(one),
        )
    )
    return (*numbers, *cost_numbers(one))


def _score_number(one: SetFacts) -> KeyNumber:
    score_s = one.result.score_s
    if score_s is None or not math.isfinite(score_s):
        reason = printable(one.result.no_score_reason or "the runs do not make one")
        return KeyNumber(name="Time to train", value="none", unit="", note=f"no score: {reason}")
    unit = column_unit([one])
    words = f"{unit.name}, unverified" if one.status == "official" else unit.name
    note = f"Olympic mean of {plural(len(one.runs), 'run')}"
    if one.interval is not None:
        note += f", 95 % interval {interval(unit.number(one.interval.low), unit.number(one.interval.high))}"
    if one.result.rcp_factor is not None and one.result.rcp_factor != 1.0:
        note += f"; {unit.text(one.result.olympic_mean_s)} × {ratio(one.result.rcp_factor).rstrip('×')} for its RCP"
    return KeyNumber(name="Time to train", value=unit.number(score_s), unit=words, note=note)


def _runs_note(one: SetFacts) -> str:
    failed = sum(not run.result.converged for run in one.runs)
    parts = [plural(len(one.runs), "log")]
    if failed:
        parts.append(f"{failed} did not converge")
    if one.unfinished:
        parts.append(f"{plural(len(one.unfinished), 'attempt')} without a result")
    return ", ".join(parts)


def runs_table(one: SetFacts, id_: str) -> Table:
    """All attempts: committed runs, then those that left no result."""
    unit = column_unit([one])
    has_peak = any(run.attempt and run.attempt.peak_rss_bytes for run in one.runs)
    has_device = any(run.attempt and run.attempt.peak_device_bytes for run in one.runs)
    columns = [
        Column(name="Run"),
        Column(name="Status"),
        Column(name=f"Time to train, {unit.name}", is_number=True),
        Column(name="Epochs", is_number=True),
        Column(name="Final AUC", is_number=True),
        Column(name="Samples/s", is_number=True),
        Column(name=f"Eval, {unit.name}", is_number=True),
        Column(name="Init", is_number=True),
        Column(name="Seed", is_number=True),
        Column(name="Batch size", is_number=True),
        Column(name="Learning rate", is_number=True),
    ]
    columns += [Column(name="Peak memory", is_number=True)] if has_peak else []
    columns += [Column(name="Peak device memory", is_number=True)] if has_device else []
    has_energy = any(run.attempt and run.attempt.energy and run.attempt.energy.parts for run in one.runs)
    columns += [Column(name="Energy", is_number=True, help="measured")] if has_energy else []
    columns += [Column(name="Started"), Column(name="Cache clear"), Column(name="Log sha256")]
    rows = []
    for run in one.runs:
        result, attempt = run.result, run.attempt
        cells = [
            Cell(text=f"run {run.label}", sort=run.label),
            _status_cell(one, run),
            Cell(text=unit.number(result.time_to_train_s)),
            Cell(text=epochs(result.epochs_to_converge)),
            Cell(text=quality(result.final_quality)),
            Cell(text=throughput(result.throughput_samples_per_s)),
            Cell(text=unit.number(result.eval_s)),
            sorted_cell(duration(result.init_s), result.init_s),
            Cell(text=MISSING if result.seed is None else printable(result.seed, 40), kind="code"),
            Cell(text=count(result.global_batch_size)),
            Cell(text=learning_rate(result.learning_rate)),
        ]
        if has_peak:
            cells.append(_bytes_cell(attempt.peak_rss_bytes if attempt else None))
        if has_device:
            cells.append(_bytes_cell(attempt.peak_device_bytes if attempt else None))
        if has_energy:
            energy_j = attempt.energy.energy_j if attempt and attempt.energy else None
            cells.append(sorted_cell(energy_text(energy_j), energy_j))
        cells += [
            Cell(text=utc(result.started_ms), sort="" if result.started_ms is None else repr(result.started_ms)),
            Cell(text=printable(result.cache_clear, 120) if result.cache_clear else "not logged"),
            Cell(text=short_digest(result.log_sha256), kind="code"),
        ]
        rows.append(tuple(cells))
    for attempt in one.unfinished:
        reason = f": {attempt.reason}" if attempt.reason else ""
        cells = [
            Cell(text=f"run {attempt.run_index}, attempt {attempt.attempt}", sort=str(attempt.run_index)),
            Cell(text=f"{attempt.status or 'no record'}{reason}", kind="bad"),
            *(Cell(text=MISSING) for _ in range(6)),
            Cell(text=MISSING if attempt.seed is None else str(attempt.seed), kind="code"),
            *(Cell(text=MISSING) for _ in range(2)),
        ]
        cells += [_bytes_cell(attempt.peak_rss_bytes)] if has_peak else []
        cells += [_bytes_cell(attempt.peak_device_bytes)] if has_device else []
        cells += [Cell(text=MISSING)] if has_energy else []
        cells += [_started_cell(attempt.started_utc), Cell(text=MISSING), Cell(text="no result")]
        rows.append(tuple(cells))
    return Table(id=id_, caption="All runs and attempts", columns=tuple(columns), rows=tuple(rows), is_sortable=True)


def _status_cell(one: SetFacts, run: RunFacts) -> Cell:
    words = fate_words(run, one.result.olympic_mean_s is not None)
    if run.fate == "failed":
        reason = run.result.abort_reason or run.result.status
        return Cell(text=f"✕ {words}" + (f" ({printable(reason, 80)})" if reason else ""), kind="bad")
    return Cell(text=f"{'○' if run.is_dropped else '●'} {words}")


def _bytes_cell(value: float | None) -> Cell:
    return sorted_cell(num_bytes(value), value)


def _started_cell(started_utc: str | None) -> Cell:
    moment = epoch_ms(started_utc)
    return Cell(text=started_utc or MISSING) if moment is None else Cell(text=utc(moment), sort=repr(moment))


def _preflight(one: SetFacts, id_: str) -> Table | None:
    checks = one.extras.run_set.preflight if one.extras.run_set else ()
    if not checks:
        return None
    kinds = {"ok": "", "pass": "", "warning": "warn", "warn": "warn", "fail": "bad", "error": "bad"}
    rows = tuple(
        (
            Cell(text=check.name),
            Cell(text=check.value or MISSING),
            Cell(text=check.status, kind=kinds.get(check.status, "")),
            Cell(text=check.why),
            Cell(text=check.remedy),
        )
        # What disturbs stands first.
        for check in sorted(checks, key=lambda check: _PREFLIGHT_ORDER.get(check.status, 1))
    )
    names = ("Check", "Found", "Status", "Why it matters", "What to do")
    return Table(
        id=id_,
        caption="What could disturb measurements",
        columns=tuple(Column(name=name) for name in names),
        rows=rows,
    )


def _system(one: SetFacts, id_: str) -> Table | None:
    if not one.extras.system:
        return None
    provenance = one.extras.run_set.provenance if one.extras.run_set else {}
    filled = [(key, value) for key, value in one.extras.system if value]
    rows = tuple(
        (Cell(text=key, kind="code"), Cell(text=value), Cell(text=provenance.get(key, MISSING)))
        for key, value in filled
    )
    empty = [key for key, value in one.extras.system if not value]
    if empty:
        told = ", ".join(empty)
        rows += ((Cell(text="left empty"), Cell(text=told, kind="quiet"), Cell(text=MISSING)),)
    return Table(
        id=id_,
        caption="System description, in the field names of MLPerf®",
        columns=(Column(name="Field"), Column(name="Value"), Column(name="Source")),
        rows=rows,
    )


def _configuration(one: SetFacts, id_: str) -> Table | None:
    record = one.extras.run_set
    if record is None or not record.config:
        return None
    # What somebody chose stands before what the definition says.
    values = sorted(record.config, key=lambda value: (value.source or "").startswith("definition"))
    return Table(
        id=id_,
        caption="Resolved configuration and where each value comes from",
        columns=(Column(name="Key"), Column(name="Value"), Column(name="Source")),
        rows=tuple(
            (
                Cell(text=value.key, kind="code"),
                Cell(text=value.value, kind="code"),
                Cell(text=value.source or MISSING),
            )
            for value in values
        ),
        is_sortable=True,
    )


def _reproduce(one: SetFacts) -> tuple[Fact, ...]:
    record, first = one.extras.run_set, one.first_run
    facts = []
    if record is not None:
        facts += [
            Fact(name="Run set", value=record.name or MISSING),
            Fact(name="Made", value=record.created_utc or MISSING),
            Fact(name="dlrmbench", value=record.harness_version or MISSING),
            Fact(
                name="Base seed", value=MISSING if record.base_seed is None else str(record.base_seed), is_code=True
            ),
        ]
        facts += [Fact(name=f"Dataset: {key}", value=value or MISSING, is_code=True) for key, value in record.dataset]
    if first is not None:
        facts.append(Fact(name="Definition sha256", value=printable(first.definition_sha256), is_code=True))
        if record is None or not record.dataset:
            facts.append(Fact(name="Dataset sha256", value=printable(first.dataset_sha256), is_code=True))
        facts.append(Fact(name="Training samples", value=count(first.train_samples)))
        facts.append(Fact(name="Evaluation samples", value=count(first.eval_samples)))
    return tuple(facts)


def _files(one: SetFacts, id_: str) -> Table:
    folder = str(one.result_set.folder)
    rows = [
        (
            Cell(text=printable(run.result.path.removeprefix(f"{folder}/")), kind="code"),
            Cell(text=printable(run.result.log_sha256), kind="code"),
        )
        for run in one.runs
    ]
    return Table(
        id=id_,
        caption=f"Logs in {printable(folder)}",
        columns=(Column(name="File"), Column(name="sha256")),
        rows=tuple(rows),
    )


def _warnings(one: SetFacts) -> tuple[str, ...]:
    """What a reader must know before believing the score."""
    found = []
    if one.result.score_s is None:
        found.append(f"No score: {printable(one.result.no_score_reason or 'the runs do not make one')}.")
    elif one.result.rcp_outcome in ("failed", "missing"):
        found.append(f"Reference convergence points: {printable(one.result.rcp_reason)}.")
    spread = log_summary(run.time_s for run in one.runs if run.result.converged)
    if spread and spread.coefficient_of_variation and spread.coefficient_of_variation > 0.10:
        found.append(
            f"Times vary by {percent(spread.coefficient_of_variation)} between runs, more than the 2 to 10 % usual "
            "for DLRM. Look at the noise section, and run more."
        )
    return tuple(found)


def _missing(one: SetFacts) -> tuple[str, ...]:
    """What this page would show and this result does not have."""
    found = []
    if one.extras.run_set is None:
        found.append("Configuration, environment and preflight: the logs come without a run set's records.")
    if not one.extras.system:
        found.append("System description: no systems/<system>.json beside the results.")
    if not any(run.attempt and run.attempt.blocks for run in one.runs):
        found.append("Throughput block by block: no run.json beside the logs.")
    if not any(run.attempt and run.attempt.peak_rss_bytes for run in one.runs):
        found.append("Peak memory: not recorded.")
    return (*found, *missing_energy(one))
