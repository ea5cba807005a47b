"""The verdict: one row per configuration with its score and what the score is made of."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from reports.charts.svg import fit_names
from reports.comparison.records import Comparison
from reports.comparison.wording import speed, with_sign
from reports.document.blocks import Block, Bullets, Cell, Column, Fact, Facts, Prose, Table, numeric, table_of
from reports.document.glossary import MARKS, registered, standing_line
from reports.document.page import Badge, PageSection
from reports.facts.facts import SetFacts
from reports.facts.rank_counts import ranks_words
from reports.facts.reference_points import outcome_words
from reports.page.figures.cost import cost_columns, cost_numbers
from reports.page.figures.times import bounds_text, column_unit, sorted_cell
from reports.statistics.intervals import coverage_words
from reports.tables.records import SetRow
from reports.tables.rows import set_row
from reports.text.formatting import (
    MISSING,
    TimeUnit,
    count,
    epochs,
    learning_rate,
    num_bytes,
    percent,
    plural,
    printable,
    quality,
    ratio,
    si,
    throughput,
)
from rules.checks.rule import SEVERITIES, Finding
from rules.checks.verdict import Verdict

_ICONS = {"valid": "✓", "invalid": "✕", "incomplete": "◐"}
_USUAL_SPREAD = 0.10
MAX_WARNINGS = 12


def verdict_section(group: Sequence[SetFacts], id_: str, comparisons: Sequence[Comparison] = ()) -> PageSection:
    """The large numbers of a lone configuration, the table, and what to know before believing it."""
    blocks: list[Block] = []
    if len(group) == 1:
        blocks.append(Facts(facts=key_numbers(group[0]), style="numbers"))
    warnings = group_warnings(group)
    if warnings:
        blocks.append(Bullets(items=warnings, kind="warnings"))
    blocks.append(verdict_table(group, f"{id_}-verdicts", comparisons))
    blocks += [Prose(text=note, kind="note") for note in verdict_notes(group)]
    return PageSection(id=f"{id_}-verdict", heading="Verdict", name="Verdict", blocks=tuple(blocks))


def badge(facts: SetFacts) -> Badge:
    """The verdict as icon, word and one sentence."""
    errors, warnings = facts.verdict.count("error"), facts.verdict.count("warning")
    words = f"{plural(errors, 'error')}, {plural(warnings, 'warning')} from the rules"
    outcome = facts.verdict.outcome
    return Badge(kind=outcome, icon=_ICONS[outcome], word=outcome.upper(), words=words)


def headline(facts: SetFacts) -> str:
    """The result in one sentence."""
    target = facts.first_run.quality_target if facts.first_run else None
    goal = f" to AUC {quality(target)}" if target is not None else ""
    if facts.result.score_s is not None and math.isfinite(facts.result.score_s):
        score = column_unit([facts]).text(facts.result.score_s)
        return ", ".join((f"{facts.benchmark} trained{goal} in {score}", *_marks(facts)))
    reached = sum(run.result.converged for run in facts.runs)
    return f"{facts.benchmark}: {reached} of {plural(len(facts.runs), 'run')} trained{goal}, no score"


def tags(group: Sequence[SetFacts]) -> tuple[str, ...]:
    """What kind of result this is, in a few words each."""
    first = group[0].first_run
    found = [f"{printable(first.division, 40)} division"] if first and first.division else []
    rulesets = list(dict.fromkeys(registered(printable(facts.verdict.ruleset, 80)) for facts in group))
    found.append(f"rules: {', '.join(rulesets[:4])}" + (" and more" if len(rulesets) > 4 else ""))
    found.append(standing_line([facts.standing for facts in group]))
    return tuple(found)


def _marks(facts: SetFacts) -> tuple[str, ...]:
    """What must be said beside a score under an official name; nothing for others."""
    return (MARKS[facts.standing],) if facts.standing in MARKS else ()


def system_words(facts: SetFacts) -> str:
    """The system in a few words: accelerators and their number, else processors, else its name."""
    fields = dict(facts.records.system)
    nodes = fields.get("number_of_nodes", "")
    model, number = fields.get("accelerator_model_name", ""), fields.get("accelerators_per_node", "")
    if not model or number in ("", "0"):
        model, number = fields.get("host_processor_model_name", ""), fields.get("host_processors_per_node", "")
    if not model:
        return printable(facts.result_set.system, 60) if facts.result_set.system else ""
    times = f"{number} × " if number not in ("", "0") else ""
    per = f"{nodes} nodes of " if nodes not in ("", "0", "1") else ""
    return printable(f"{per}{times}{model}", 70)


def key_numbers(facts: SetFacts) -> tuple[Fact, ...]:
    """Score, its factors and the quality reached, each with its spread."""
    converged = [run.result for run in facts.converged]
    numbers = [_score_number(facts)]
    for name, unit, member, text in (
        ("Epochs to converge", "epochs", "epochs_to_converge", epochs),
        ("Throughput", "samples/s", "throughput_samples_per_s", si),
    ):
        summary = facts.summary(member)
        note = "not known from the logs"
        if summary is not None:
            spread = summary.coefficient_of_variation
            note = "geometric mean" + (f", CV {percent(spread)}" if spread is not None else " of one run")
        numbers.append(
            Fact(name=name, value=text(summary.geometric_mean) if summary else MISSING, unit=unit, note=note)
        )
    parts = [(run.overhead_s, run.time_to_train_s) for run in converged if run.overhead_s is not None]
    total_s = sum(time_s or 0.0 for _, time_s in parts)
    share = percent(sum(part for part, _ in parts) / total_s).removesuffix(" %") if total_s else MISSING
    about = "of the time to train of all converged runs" if total_s else "not known from the logs"
    numbers.append(Fact(name="Evaluation, overhead", value=share, unit="% of the time", note=about))
    finals = [run.final_quality for run in converged if run.final_quality is not None]
    reached = quality(sum(finals) / len(finals)) if finals else MISSING
    target = facts.first_run.quality_target if facts.first_run else None
    goal = f"mean of final AUCs; target {quality(target)}" if target is not None else "no target known"
    numbers.append(Fact(name="Quality reached", value=reached, unit="ROC AUC", note=goal))
    needed = facts.result.num_runs_required
    counts = f"{len(converged)} / {needed if needed is not None else len(facts.runs)}"
    unit = "reached the target" if needed is None else "converged / needed"
    numbers.append(Fact(name="Runs", value=counts, unit=unit, note=runs_words(facts, "log")))
    return (*numbers, *cost_numbers(facts))


def _score_number(facts: SetFacts) -> Fact:
    score_s = facts.result.score_s
    if score_s is None or not math.isfinite(score_s):
        reason = printable(facts.result.no_score_reason or "the runs do not make one")
        return Fact(name="Time to train", value="none", unit="", note=f"no score: {reason}")
    unit = column_unit([facts])
    words = ", ".join((unit.name, *_marks(facts)))
    note = f"measured; Olympic mean of {plural(len(facts.runs), 'run')}"
    if facts.interval is not None:
        note += f", 95 % interval {bounds_text(facts.interval, unit.number)}"
    if facts.result.rcp_factor is not None and facts.result.rcp_factor != 1.0:
        note += (
            f"; {unit.text(facts.result.olympic_mean_s)} × {ratio(facts.result.rcp_factor).rstrip('×')} for its RCP"
        )
    return Fact(name="Time to train", value=unit.number(score_s), unit=words, note=note)


def runs_words(facts: SetFacts, name: str) -> str:
    """How many runs, or logs, there are, and how many of them failed or left no result."""
    failed = sum(not run.result.converged for run in facts.runs)
    texts = [plural(len(facts.runs), name)]
    texts += [f"{failed} did not converge"] if failed else []
    texts += [f"{plural(len(facts.unfinished), 'attempt')} without a result"] if facts.unfinished else []
    return ", ".join(texts)


def verdict_table(group: Sequence[SetFacts], id_: str, comparisons: Sequence[Comparison] = ()) -> Table:
    """One row per configuration: verdict, score and what it is made of; `comparisons` are those with the baseline."""
    against = {comparison.new: comparison for comparison in comparisons}
    unit = column_unit(group)
    is_scaled = any(facts.result.rcp_factor not in (None, 1.0) for facts in group)
    has_peak = any(run.record and run.record.peak_rss_bytes for facts in group for run in facts.runs)
    base = Column(name="Against", help=fit_names([comparisons[0].base], 280)[0]) if comparisons else None
    published = f"; {MARKS['published']}" if any(facts.standing == "published" for facts in group) else ""
    what = "epochs and samples/s are geometric means over converged runs"
    unscored = "times without a score, " if any(facts.result.score_s is None for facts in group) else ""
    return table_of(
        [(facts, set_row(facts)) for facts in group],
        (
            ("Configuration", lambda entry: _name_cell(entry[0], is_linked=len(group) > 1)),
            ("Verdict", lambda entry: _outcome_cell(entry[0])),
            (
                numeric("Time to train", f"measured, {unit.name}; 95 % interval{published}"),
                lambda entry: _time_cell(entry[0], unit),
            ),
            (
                numeric("Olympic mean", f"{unit.name}; before its RCP factor") if is_scaled else None,
                lambda entry: _mean_cell(entry[0], unit),
            ),
            (base, lambda entry: _against(against.get(entry[0].label))),
            (
                numeric("Epochs", "to converge"),
                lambda entry: Cell(text=epochs(entry[1].epochs_to_converge), sub=_spread(entry[1].epochs_cv)),
            ),
            (
                numeric("Samples/s"),
                lambda entry: Cell(
                    text=throughput(entry[1].throughput_samples_per_s), sub=_spread(entry[1].throughput_cv)
                ),
            ),
            (numeric("Final AUC", "mean"), lambda entry: quality(entry[1].final_quality)),
            (numeric("Runs", "converged / needed"), lambda entry: _runs_cell(entry[1])),
            ("RCP", lambda entry: Cell(text=outcome_words(entry[0]), sub=_factor(entry[0]))),
            (
                numeric("Batch size"),
                lambda entry: Cell(text=count(entry[1].global_batch_size), sub=_rate(entry[1].learning_rate)),
            ),
            (
                numeric("Peak memory") if has_peak else None,
                lambda entry: sorted_cell(num_bytes(entry[1].peak_rss_bytes), entry[1].peak_rss_bytes),
            ),
            *((column, lambda entry, show=show: show(entry[0])) for column, show in cost_columns(group)),
        ),
        id_=id_,
        caption=f"{plural(len(group), 'configuration')}; {unscored}{what}",
        is_sortable=len(group) > 1,
        style="verdicts",
    )


def _name_cell(facts: SetFacts, *, is_linked: bool) -> Cell:
    """The configuration with its system and, where there are several, ranks."""
    about = "; ".join(words for words in (system_words(facts), ranks_words(facts)) if words)
    return Cell(text=facts.label, anchor=f"set{facts.index + 1}" if is_linked else "", sub=about)


def _outcome_cell(facts: SetFacts) -> Cell:
    shown = badge(facts)
    counts = ", ".join(plural(facts.verdict.count(severity), severity) for severity in SEVERITIES[:2])
    above = [f"{verdict.level}: {text}" for verdict in facts.levels if (text := count_words(verdict.own_findings))]
    return Cell(text=f"{shown.icon} {shown.word}", kind=shown.kind, sub="; ".join((counts, *above)))


def count_words(findings: Sequence[Finding]) -> str:
    """'1 error, 2 warnings, 3 infos', of what there is."""
    counts = Counter(finding.severity for finding in findings)
    return ", ".join(plural(counts[severity], severity) for severity in SEVERITIES if counts[severity])


def _mean_cell(facts: SetFacts, unit: TimeUnit) -> Cell:
    """The Olympic mean; its interval is here where a factor scales it, else beside the score."""
    return Cell(text=unit.number(facts.result.olympic_mean_s), sub=_bounds(facts, unit) if _factor(facts) else "")


def _bounds(facts: SetFacts, unit: TimeUnit) -> str:
    """The Olympic mean's interval, both ends in one line."""
    return bounds_text(facts.interval, unit.number, "").replace(" ", "\u00a0")


def _factor(facts: SetFacts) -> str:
    """The factor that scales the score; empty where none does."""
    factor = facts.result.rcp_factor
    return "" if factor in (None, 1.0) else f"× {factor:.4f}"


def _runs_cell(row: SetRow) -> Cell:
    text = f"{row.num_converged} / {row.num_runs_required or MISSING}"
    return Cell(text=text, sub=f"{row.num_unfinished} unfinished" if row.num_unfinished else "")


def _time_cell(facts: SetFacts, unit: TimeUnit) -> Cell:
    """The score; without one what the runs that reached the target took, which is said to be no score."""
    if facts.result.score_s is not None:
        unverified = MARKS["unverified"] if facts.standing == "unverified" else ""
        beside = (unverified, "" if _factor(facts) else _bounds(facts, unit))
        sub = " · ".join(text for text in beside if text)
        return Cell(text=unit.number(facts.result.score_s), kind="strong", sub=sub)
    summary = facts.summary("time_to_train_s")
    if summary is None:
        return Cell(text=MISSING, sub="no score")
    return Cell(text=unit.number(summary.geometric_mean), kind="quiet", sub="no score")


def _against(comparison: Comparison | None) -> Cell:
    """The verdict of the comparison in few words, what is not settled with its word first."""
    if comparison is None:
        return Cell(text="baseline", kind="quiet")
    whole = comparison.whole
    if comparison.refusal is not None or whole is None:
        return Cell(text="not compared", kind="quiet")
    text = with_sign(speed(whole.time_ratio)) if whole.time_ratio is not None else ""
    if comparison.verdict in text:
        return Cell(text=text, kind="bad" if comparison.verdict == "slower" else "valid")
    return Cell(text=comparison.verdict, sub=text)


def _spread(fraction: float | None) -> str:
    return "" if fraction is None else f"CV {percent(fraction)}"


def _rate(value: float | None) -> str:
    return "" if value is None else f"learning rate {learning_rate(value)}"


def verdict_notes(group: Sequence[SetFacts]) -> tuple[str, ...]:
    notes = []
    known = [
        (facts.interval.coverage, len(facts.runs)) for facts in group if facts.interval and facts.interval.coverage
    ]
    if known:
        text = "; ".join(dict.fromkeys(coverage_words(coverage, num_runs) for coverage, num_runs in known))
        notes.append(
            f"The 95 % intervals are those of the Olympic mean: expanded percentile bootstraps of the runs. They "
            f"{text} (measured times fall on the grid of the evaluations, simulated ones do not)."
        )
    if any(facts.result.olympic_mean_s is not None and facts.interval is None for facts in group):
        notes.append(
            "No interval where a run did not converge or fewer than 5 runs exist: an infinite time has no mean."
        )
    if len(group) > 1:
        notes.append("The rows are in the order of the files: no ranking.")
    return tuple(notes)


def group_warnings(group: Sequence[SetFacts]) -> tuple[str, ...]:
    """What a reader must know before believing the scores, alike sentences once: first of all what is INVALID."""
    refused = _said_of([(sentence, facts.label) for facts in group for sentence in _refusals(facts)], len(group))
    remarks = _said_of(
        [(text, facts.label) for facts in group for text in (*_warnings(facts), *facts.records.problems)], len(group)
    )
    hidden = len(remarks) - MAX_WARNINGS
    return (*refused, *remarks[:MAX_WARNINGS], *([f"{hidden} more such remarks."] if hidden > 0 else []))


def _said_of(pairs: Sequence[tuple[str, str]], num_sets: int) -> list[str]:
    """Each sentence once, with the labels that it is said of where there are several sets."""
    said: dict[str, list[str]] = {}
    for sentence, label in pairs:
        said.setdefault(sentence, []).append(label)
    return [sentence if num_sets == 1 else f"{names(labels)}: {sentence}" for sentence, labels in said.items()]


def _refusals(facts: SetFacts) -> Iterator[str]:
    """What makes the set INVALID, or the submission or the round that it is in."""
    if facts.verdict.outcome == "invalid":
        yield f"INVALID by the rules: {_errors(facts.verdict.findings)}."
    for verdict in facts.levels:
        if errors := _errors(verdict.own_findings):
            yield f"in the {verdict.level} {level_name(verdict)}, which is INVALID: {errors}."


def _errors(findings: Sequence[Finding]) -> str:
    """'10 errors (CA101 evaluations are at the benchmark's places)'; empty without errors."""
    errors = [finding for finding in findings if finding.severity == "error"]
    rules = list(dict.fromkeys(f"{printable(finding.code, 20)} {printable(finding.title)}" for finding in errors))
    return f"{plural(len(errors), 'error')} ({names(rules)})" if errors else ""


def level_name(verdict: Verdict) -> str:
    """The name of a submission's or a round's directory."""
    return printable(PurePath(verdict.subject).name or verdict.subject, 80)


def names(labels: Sequence[str], most: int = 3) -> str:
    """'a', 'a, b', or 'a, b, c and 4 more'."""
    shown = ", ".join(labels[:most])
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"


def _warnings(facts: SetFacts) -> tuple[str, ...]:
    found = []
    for label, number in Counter(run.repeats for run in facts.runs if run.repeats).items():
        found.append(f"{number} of its {plural(len(facts.runs), 'run')} are those of {label}, and drawn once, there.")
    if facts.result.score_s is None:
        found.append(f"No score: {printable(facts.result.no_score_reason or 'the runs do not make one')}.")
    elif facts.result.rcp_outcome in ("failed", "missing"):
        found.append(f"Reference convergence points: {printable(facts.result.rcp_reason)}.")
    spread = facts.summary("time_to_train_s")
    if spread and spread.coefficient_of_variation and spread.coefficient_of_variation > _USUAL_SPREAD:
        found.append(
            f"Times vary by {percent(spread.coefficient_of_variation)} between runs, more than the 2 to 10 % usual "
            "for DLRM. Look at the noise section, and run more."
        )
    return tuple(found)
