"""Makes the section of the rules' verdicts: one row per configuration with its score and the factors of its time to
train."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from reports.charts.svg import fit_names
from reports.comparison.comparability import ONE_SYSTEM, systems_differ
from reports.comparison.records import Comparison
from reports.comparison.wording import rejected_words, speed, with_sign
from reports.document.blocks import Block, Bullets, Cell, Fact, Facts, Prose, Table, TableColumn, numeric, table_of
from reports.document.glossary import MARKS, registered, standing_line
from reports.document.page import Badge, PageSection
from reports.facts.rank_counts import runtime_words
from reports.facts.reference_points import outcome_words
from reports.page.figures.detail import detail_note, detailed
from reports.page.figures.times import column_unit
from reports.page.sections.remarks import count_words, group_warnings, refusal_words
from reports.parts.cells import bounds_text, by_value, with_spread
from reports.parts.cost import cost_columns, cost_numbers
from reports.parts.noise import disturbed_words, outlier_words
from reports.parts.score import EPOCHS, describe_score, score_facts, time_fact
from reports.results.logs import Order
from reports.results.result import Result
from reports.results.sequential_stopping import stopping_words
from reports.statistics.intervals import AT_LEAST, AT_LEAST_NAME, MIN_RUNS, mean_of_known
from reports.text.formatting import (
    MISSING,
    TimeUnit,
    capital,
    count,
    epochs,
    learning_rate,
    num_bytes,
    percent,
    plural,
    printable,
    quality,
    ratio,
    throughput,
)
from rules.checks.rule import SEVERITIES
from rules.judge.agreement import accepted_by_round
from rules.logs import keys
from rules.scoring.good_sets import failing_percent
from rules.scoring.results import RunResult

_NARROW = 14
"""Maximum number of characters of the text below a column's heading, beyond which it would widen a narrow column."""
_EPOCHS, _SPEED = "epochs_to_converge", "throughput_samples_per_s"
_ICONS = {"valid": "✓", "invalid": "✕", "incomplete": "◐"}
_DIVISIONS = {
    keys.CLOSED: " (MLPerf®'s: same model, data and optimizer)",
    keys.OPEN: " (MLPerf®'s: another model or optimizer may train to the target)",
}
"""Explanations of MLPerf's divisions Closed and Open, printed after the division's name."""
_ORDERS: dict[Order, str] = {
    "files": "Rows are in the order of the files, which is not a ranking.",
    "score": "Rows are in the order of their scores, as was asked for; INVALID sets follow the others, and "
    "sets without a score are last. The order is not a ranking: scores may differ by chance, and the intervals and "
    "the comparison say more.",
}
_COMPARING = (
    " By MLCommons' messaging guidelines, whoever compares MLPerf® results names every difference in version, "
    "division, category, verified or unverified status, and number of chips."
)


def verdict_section(
    group: Sequence[Result], id_: str, comparisons: Sequence[Comparison] = (), order: Order = "files"
) -> PageSection:
    """Return the section of the verdict: the key numbers where there is only one configuration, the table of
    configurations, and the notes below it."""
    blocks: list[Block] = []
    if len(group) == 1:
        blocks.append(Facts(facts=key_numbers(group[0]), style="numbers"))
    if warnings := group_warnings(group):
        blocks.append(Bullets(items=warnings, kind="warnings"))
    blocks += [
        Prose(text=f"{result.label}: {line}.", kind="note")
        for result in group
        for line in accepted_by_round(result.verdict)
    ]
    if note := detail_note(group):  # notes stand above the table, which may have a thousand rows
        blocks.append(Prose(text=note))
    blocks.append(verdict_table(group, f"{id_}-verdicts", comparisons))
    blocks += [Prose(text=note, kind="note") for note in verdict_notes(group, order)]
    return PageSection(id=f"{id_}-verdict", heading="Verdict", name="Verdict", blocks=tuple(blocks))


def badge(result: Result) -> Badge:
    """Return a result's verdict by the rules as an icon, a word and a sentence."""
    errors, warnings = result.verdict.count("error"), result.verdict.count("warning")
    words = f"{plural(errors, 'error')}, {plural(warnings, 'warning')} from the rules{result.verdict.own_code}"
    words += _disturbed(result)
    outcome = result.verdict.outcome
    return Badge(kind=outcome, icon=_ICONS[outcome], word=outcome.upper(), words=words)


def _disturbed(result: Result) -> str:
    return disturbed_words(result.speed_cv, result.num_converged, outlier_words(result))


def headline(result: Result) -> str:
    """Return a result in one sentence, which says if it is INVALID and, for an official MLPerf benchmark, by which
    rules."""
    target = result.first_run.quality_target if result.first_run else None
    goal = f" to {result.metric.label} {quality(target)}" if target is not None else ""
    words = refusal_words([result]) if result.status == "official" else "INVALID by the rules"
    rejected = (words,) if result.outcome == "invalid" else ()
    if result.score.score_s is not None and math.isfinite(result.score.score_s):
        score = column_unit([result]).text(result.score.score_s)
        disturbed = ("measured on a noisy machine",) if _disturbed(result) else ()
        return ", ".join(
            (f"{result.benchmark_name} trained{goal} in {score}", *_marks(result), *disturbed, *rejected)
        )
    reached = sum(run.log.converged for run in result.runs)
    found = f"{result.benchmark_name}: {reached} of {plural(len(result.runs), 'run')} trained{goal}"
    fact = time_fact(result)
    if not fact.unit:
        return ", ".join((found, "no score", *rejected))
    mean = " (geometric mean)" if reached > 1 else ""
    return ", ".join((f"{found} in {fact.value} {fact.unit}{mean}", *_marks(result), "no score", *rejected))


def tags(group: Sequence[Result]) -> tuple[str, ...]:
    """Return tags on a group of results, a few words each: MLPerf division, rulesets, verification status."""
    first = group[0].first_run
    division = printable(first.division, 40) if first else ""
    found = [f"{division} division{_DIVISIONS.get(division, '')}"] if division else []
    rulesets = list(dict.fromkeys(registered(printable(result.verdict.ruleset, 80)) for result in group))
    found.append(f"rules: {', '.join(rulesets[:4])}" + (" and more" if len(rulesets) > 4 else ""))
    found.append(standing_line([result.standing for result in group]))
    return tuple(found)


def _marks(result: Result) -> tuple[str, ...]:
    """Return the words that MLCommons requires beside a score under an official MLPerf name, such as 'unverified';
    none for other benchmarks."""
    return (MARKS[result.standing],) if result.standing in MARKS else ()


def system_words(result: Result) -> str:
    """Return a result's system in a few words: accelerators and their number, else processors, else the system's
    name."""
    return processor_words(dict(result.system.fields)) or (
        printable(result.system.name, 60) if result.system.name else ""
    )


def processor_words(fields: Mapping[str, str]) -> str:
    """Return the processors in a system description's fields, '8 × NVIDIA H100', '2 nodes of 1 × AMD EPYC', or ''."""
    nodes = fields.get("number_of_nodes", "")
    model, number = fields.get("accelerator_model_name", ""), fields.get("accelerators_per_node", "")
    if not model or number in ("", "0"):
        model, number = fields.get("host_processor_model_name", ""), fields.get("host_processors_per_node", "")
    if not model:
        return ""
    times = f"{number} × " if number not in ("", "0") else ""
    per = f"{nodes} nodes of " if nodes not in ("", "0", "1") else ""
    return printable(f"{per}{times}{model}", 70)


def key_numbers(result: Result) -> tuple[Fact, ...]:
    """Return a result's key numbers, to be printed in large type: the score, its factors (epochs to converge,
    samples/s, evaluation and overhead) with their variation, the quality reached, the number of runs, and the
    cost."""
    facts, numbers = score_facts(describe_score(result)), [_score_number(result)]
    for name, unit in ((EPOCHS, "epochs"), ("throughput", "samples/s"), ("evaluation, overhead", "")):
        fact = facts.get(name) or Fact(name=name, value=MISSING, unit=unit, note="not known from the logs")
        numbers.append(replace(fact, name=capital(name), note=fact.note or "geometric mean"))
    reached = quality(_final_quality(result))
    target = result.first_run.quality_target if result.first_run else None
    goal = "no target known" if target is None else f"mean of final {result.metric.plural}; target {quality(target)}"
    if target is None and result.first_run is not None and result.first_run.division == keys.OPEN:
        reached = quality(result.score.final_quality)
        goal = f"geometric mean of final {result.metric.plural}; Open ends runs by any criterion"
    numbers.append(Fact(name="Quality reached", value=reached, unit=result.metric.title, note=goal))
    needed = result.score.num_runs_required
    of_all = f"of {plural(len(result.runs), 'run')} reached the target"
    unit = of_all if needed is None else f"converged, {needed} required"
    numbers.append(Fact(name="Runs", value=f"{len(result.converged)}", unit=unit, note=runs_words(result, "log")))
    return (*numbers, *cost_numbers(result))


def _score_number(result: Result) -> Fact:
    unit = column_unit([result])
    fact = replace(time_fact(result, unit), name="Time to train")
    if not fact.unit:
        return fact
    note, is_scored = fact.note, result.score.score_s is not None and math.isfinite(result.score.score_s)
    if is_scored and result.interval is not None:
        note += f", {AT_LEAST_NAME} {bounds_text(result.interval, unit.number)}"
    if is_scored and result.is_scaled:
        factor = ratio(result.score.rcp_factor).rstrip("×")
        note += f"; {unit.text(result.score.olympic_mean_s)} × {factor} for its RCP"
    return replace(fact, unit=", ".join((fact.unit, *_marks(result))), note=note)


def runs_words(result: Result, name: str) -> str:
    """Return in words how many runs a result has, how many of these did not converge, and how many attempts left no
    result; `name` is the word for runs, such as 'log'."""
    failed = sum(not run.log.converged for run in result.runs)
    texts = [plural(len(result.runs), name)]
    texts += [f"{failed} did not converge"] if failed else []
    texts += [f"{plural(len(result.unfinished), 'attempt')} without a result"] if result.unfinished else []
    return ", ".join(texts)


def verdict_table(group: Sequence[Result], id_: str, comparisons: Sequence[Comparison] = ()) -> Table:
    """Return the table of configurations: the rules' verdict, the score and its factors such as samples/s;
    `comparisons` are those of each configuration with the baseline."""
    against = {comparison.new: comparison for comparison in comparisons}
    linked = {result.index for result in detailed(group)} if len(group) > 1 else set()
    unit = column_unit(group)
    is_scaled = any(result.is_scaled for result in group)
    may_fail = any(_failing_share(result) is not None for result in group)
    base = TableColumn(name="Against", help=_brief_base(comparisons[0].base)) if comparisons else None
    published = f"; {MARKS['published']}" if any(result.standing == "published" for result in group) else ""
    what = "epochs and samples/s are geometric means over converged runs"
    what += "; factors are ratios of geometric means, not of scores" if comparisons else ""
    unscored = "times without a score, " if any(result.score.score_s is None for result in group) else ""
    time = numeric("Time to train", f"measured, {unit.name}; {AT_LEAST_NAME}{published}")
    mean = numeric("Olympic mean", f"{unit.name}; before its RCP factor")
    return table_of(
        group,
        (
            ("Configuration", lambda result: _name_cell(result, is_linked=result.index in linked)),
            ("Verdict", _outcome_cell),
            (time, lambda result: _time_cell(result, unit)),
            (mean if is_scaled else None, lambda result: _mean_cell(result, unit)),
            (base, lambda result: _against(against.get(result.label))),
            (numeric("Epochs", "to converge"), lambda result: result.summary(_EPOCHS), with_spread(epochs)),
            (numeric("Samples/s"), lambda result: result.summary(_SPEED), with_spread(throughput)),
            (numeric(f"Final {group[0].metric.label}", "mean"), _final_quality, quality),
            (numeric("Runs", "converged / required"), _runs_cell),
            (TableColumn(name="RCP", help="chance of a false alarm" if may_fail else ""), _rcp_cell),
            (numeric("Batch size", "samples, learning rate"), "first_run", _batch_cell),
            (numeric("Peak memory") if any(map(_peak_bytes, group)) else None, _peak_bytes, by_value(num_bytes)),
            *cost_columns(group),
        ),
        id_=id_,
        caption=f"{plural(len(group), 'configuration')}; {unscored}{what}",
        is_sortable=len(group) > 1,
        style="verdicts",
    )


def _brief_base(name: str) -> str:
    """Return the baseline's name, shortened to fit below the heading of the narrow column 'Against': of a long name
    of the form 'key=value', only the value."""
    _, equals, value = name.partition("=")
    return value if equals and len(name) > _NARROW and "=" not in value else fit_names([name], 280)[0]


def _name_cell(result: Result, *, is_linked: bool) -> Cell:
    """Return the table cell that names a configuration: its system, its runtime, and the category of an official
    result."""
    category = printable(dict(result.system.fields).get("status", ""), 60) if result.status == "official" else ""
    about = "; ".join(words for words in (system_words(result), runtime_words(result), category) if words)
    return Cell(text=result.label, anchor=f"set{result.index + 1}" if is_linked else "", sub=about)


def _outcome_cell(result: Result) -> Cell:
    shown = badge(result)
    counts = ", ".join(plural(result.verdict.count(severity), severity) for severity in SEVERITIES[:2])
    above = [f"{verdict.level}: {text}" for verdict in result.levels if (text := count_words(verdict.own_findings))]
    return Cell(text=f"{shown.icon} {shown.word}", kind=shown.kind, sub="; ".join((counts, *above)))


def _mean_cell(result: Result, unit: TimeUnit) -> Cell:
    """Return the cell of a result's Olympic mean time. It has the interval of the mean if an RCP (reference
    convergence point) factor normalises the score; otherwise the interval is in the cell of the score."""
    return Cell(text=unit.number(result.score.olympic_mean_s), sub=_bounds(result, unit) if _factor(result) else "")


def _bounds(result: Result, unit: TimeUnit) -> str:
    """Return both ends of the interval of a result's mean time, in words that are not broken over lines."""
    return bounds_text(result.interval, unit.number, "").replace(" ", "\u00a0")


def _rcp_cell(result: Result) -> Cell:
    """Return the cell on the RCP (reference convergence point) test. It has the outcome of the test and, below, the
    factor that normalises the score. For a benchmark that is not MLPerf's, the number below is instead the chance
    that a set that converges like the reference fails the test."""
    share = _failing_share(result)
    return Cell(text=outcome_words(result), sub=_factor(result) if share is None else failing_percent(share))


def _failing_share(result: Result) -> float | None:
    """Return the chance that a set that converges like the reference fails the RCP (convergence) test of a benchmark
    that is not MLPerf's; None for official benchmarks."""
    convergence = result.score.convergence
    return convergence.failing_share if convergence is not None else None


def _factor(result: Result) -> str:
    """Return the RCP factor that normalises a result's score: '× 1.0321'; '' where the score is not normalised."""
    return f"× {result.score.rcp_factor:.4f}" if result.is_scaled else ""


def _runs_cell(result: Result) -> Cell:
    text = f"{len(result.converged)} / {result.score.num_runs_required or MISSING}"
    return Cell(text=text, sub=f"{len(result.unfinished)} unfinished" if result.unfinished else "")


def _batch_cell(run: RunResult) -> Cell:
    rate = run.learning_rate
    return Cell(text=count(run.global_batch_size), sub="" if rate is None else learning_rate(rate))


def _final_quality(result: Result) -> float | None:
    """Return the mean quality at the end of training over a result's converged runs; None without any."""
    return mean_of_known(run.log.final_quality for run in result.converged)


def _peak_bytes(result: Result) -> float | None:
    """Return the largest resident memory, in bytes, of all runs of a result; None where no run recorded it."""
    peaks = [run.record.peak_rss_bytes for run in result.runs if run.record and run.record.peak_rss_bytes]
    return max(peaks, default=None)


def _time_cell(result: Result, unit: TimeUnit) -> Cell:
    """Return the cell of a result's score; without a score, the geometric mean time of the runs that met the target,
    marked 'no score'."""
    if result.score.score_s is not None:
        unverified = MARKS["unverified"] if result.standing == "unverified" else ""
        beside = (unverified, "" if _factor(result) else _bounds(result, unit))
        sub = " · ".join(text for text in beside if text)
        return Cell(text=unit.number(result.score.score_s), kind="strong", sub=sub)
    summary = result.summary("time_to_train_s")
    mean_s, kind = (summary.geometric_mean, "quiet") if summary else (None, "")
    return Cell(text=unit.number(mean_s), kind=kind, sub="no score")


def _against(comparison: Comparison | None) -> Cell:
    """Return the cell with the verdict on a configuration against the baseline. If a difference is shown, the main
    text is the ratio ('1.20× faster'); else it is the verdict, with the ratio below it."""
    if comparison is None:
        return Cell(text="baseline", kind="quiet")
    whole = comparison.whole
    if comparison.refusal is not None or whole is None:
        return Cell(text="not compared", kind="quiet")
    text = with_sign(speed(whole.time_ratio)) if whole.time_ratio is not None else ""
    rejected = rejected_words(comparison)
    if comparison.verdict not in text:
        return Cell(text=f"{comparison.verdict}{rejected}", sub=text)
    kind = "bad" if comparison.verdict == "slower" else "valid"
    return Cell(text=f"{text}{rejected}", kind="" if rejected else kind)  # no colour for a rejected result


def verdict_notes(group: Sequence[Result], order: Order = "files") -> tuple[str, ...]:
    """Return the notes below the verdict table: how the intervals of times are made, why some results have none, and
    how the rows are ordered."""
    notes = []
    if any(result.interval for result in group):
        notes.append(
            f"The {AT_LEAST_NAME}s are those of the geometric mean of all runs. The interval contains the true "
            f"mean in 95 % of sets whose times can take any value, and in at least {percent(AT_LEAST, 0)} of sets "
            "whose times take only a few values and are skewed. The intervals assume independent runs, and leave out "
            "drift from hour to hour."
        )
    notes += [
        f"{result.label} {stopping_words(growth)}. The usual interval is too short for a set whose runs "
        f"decide when it ends, so the interval of its {plural(growth.num_runs, 'run')} is made at 97.5 %."
        for result in group
        if (growth := result.growth) and result.interval
    ]
    if any(result.score.olympic_mean_s is not None and result.interval is None for result in group):
        few = f"fewer than {MIN_RUNS} runs exist"
        notes.append(f"A set has no interval if a run did not converge or {few}: an infinite time has no mean.")
    if any(systems_differ(group[0], other) for other in group[1:]):
        notes.append(ONE_SYSTEM)
    if len(group) > 1:
        notes.append(_ORDERS[order] + (_COMPARING if order == "score" and group[0].status == "official" else ""))
    return tuple(notes)
