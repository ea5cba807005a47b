"""Does it converge like the reference? Results among the reference convergence points of their round."""

from collections.abc import Sequence
from dataclasses import replace

from reports.charts.reference import Point, Result, reference_figure
from reports.document.blocks import Block, Cell, Chart, Prose, numeric, text_table
from reports.document.page import PageSection
from reports.facts.facts import SetFacts
from reports.facts.reference_points import find_points
from reports.page.figures.detail import detailed
from reports.page.figures.times import hue_number
from reports.page.sections.remarks import names
from reports.text.formatting import converged, count, printable
from rules.logs import keys
from rules.scoring.good_sets import failing_share, failing_words
from rules.scoring.rcp import Convergence, ReferencePoint, Unit


def reference_section(group: Sequence[SetFacts], id_: str) -> PageSection:
    """One chart per set of points: rounds have their own."""
    by_points: dict[tuple[ReferencePoint, ...], list[tuple[SetFacts, Convergence | None]]] = {}
    without: list[SetFacts] = []
    for facts in group:
        benchmark, points = find_points(facts)
        if benchmark is None or not points:
            without.append(facts)
            continue
        by_points.setdefault(points, []).append((facts, facts.result.convergence))
    blocks: list[Block] = []
    for number, (points, judged) in enumerate(by_points.items()):
        chart = _chart(points, judged, group, f"{id_}-rcp{number + 1}")
        rounds = ", ".join(dict.fromkeys(f"v{facts.result.round}" for facts, _ in judged if facts.result.round))
        # Rounds have points of their own; each chart says whose, where there are several.
        blocks.append(replace(chart, heading=f"Points of round {rounds}") if len(by_points) > 1 else chart)
    if without:
        who = "" if len(without) == len(group) else f" ({names([entry.label for entry in without])})"
        reasons = {entry.result.rcp_reason for entry in without if entry.result.rcp_reason}
        reason = printable(next(iter(reasons))) if len(reasons) == 1 else "no reference convergence points are known"
        blocks.append(Prose(text=f"No RCP{who}: {reason}.", kind="absent"))
    heading = "Convergence against the reference"
    return PageSection(id=f"{id_}-reference", heading=heading, name="Reference", blocks=tuple(blocks))


def _chart(
    points: Sequence[ReferencePoint],
    judged: Sequence[tuple[SetFacts, Convergence | None]],
    group: Sequence[SetFacts],
    id_: str,
) -> Chart:
    places = {facts.index: place for place, facts in enumerate(group)}
    results = [
        Result(
            name=facts.label,
            hue=hue_number(places[facts.index], group),
            batch_size=facts.result.runs[0].global_batch_size or 1,
            mean_epochs=found.mean_epochs,
            is_passed=found.status == "passed",
        )
        for facts, found in judged
        if found is not None
        and found.mean_epochs is not None
        and not facts.is_repeat
        and (facts.result.runs[0].global_batch_size or 0) > 0
    ]
    drawn = [
        Point(batch_size=point.global_batch_size, mean=point.mean, deviation=point.stdev, least=point.min_epochs)
        for point in points
    ]
    lead = _lead(judged)
    unit = _unit(judged[0][0])
    title = f"{unit.capitalize()} to converge over batch size"
    rows: list[tuple[Cell | str, ...]] = [
        (
            Cell(text=f"reference at {count(point.global_batch_size)}", sub=printable(point.name, 80)),
            count(point.global_batch_size),
            Cell(text=converged(point.mean, unit), sub=f"± {converged(point.stdev, unit)}"),
            Cell(text=converged(point.min_epochs, unit), sub=_failing(point, judged[0][0])),
            "reference",
        )
        for point in points
    ]
    shown = {facts.index for facts in detailed([facts for facts, _ in judged])}
    rows += [
        _result_row(facts, found)
        for facts, found in judged
        if facts.index in shown or found is None or found.status != "passed"
    ]
    left_out = len(points) + len(judged) - len(rows)
    return Chart(
        figure=reference_figure(drawn, results, unit=unit, id_=id_, title=title, description=f"{title}. {lead}"),
        lead=lead,
        table=text_table(
            (
                "Point",
                numeric("Batch size"),
                numeric(unit.capitalize(), "Olympic mean"),
                numeric("Fewest acceptable"),
                "Outcome",
            ),
            rows,
            id_=f"{id_}-table",
            caption=f"Olympic means of {unit} to converge, with the standard deviation of the reference's runs"
            + _first_epoch(judged[0][0])
            + (f"; {left_out} more passed" if left_out else ""),
        ),
    )


def _failing(point: ReferencePoint, facts: SetFacts) -> str:
    """How many good sets an own benchmark's test fails."""
    num_runs = facts.result.num_runs_required
    if facts.status != "own" or num_runs is None or not point.epochs:
        return ""
    return failing_words(failing_share(point.epochs, num_runs, point.mean / point.max_speedup))


def _unit(facts: SetFacts) -> Unit:
    """In which unit the points of a set's benchmark are."""
    benchmark, _ = find_points(facts)
    in_samples = benchmark is not None and benchmark.quality.convergence_unit == keys.SAMPLES_COUNT
    return "samples" if in_samples else "epochs"


def _first_epoch(facts: SetFacts) -> str:
    """Points are in the log's epoch_num, which counts from 1 in some rounds; elsewhere epochs are those trained."""
    benchmark, _ = find_points(facts)
    first = benchmark.quality.first_epoch_num if benchmark is not None else 0
    return f"; as logged, where epoch_num counts from {first}: {first} more than the epochs trained" if first else ""


def _result_row(facts: SetFacts, found: Convergence | None) -> tuple[Cell | str, ...]:
    factor = facts.result.rcp_factor
    outcome = found.status if found is not None else "not tested"
    if found is None:
        reason = facts.result.no_score_reason or ""
    elif factor is not None and factor != 1.0:
        reason = f"score × {factor:.4f}"
    else:
        reason = found.reason if found.status in ("missing", "none", "failed") else ""
    return (
        facts.label,
        count(facts.result.runs[0].global_batch_size if facts.result.runs else None),
        converged(found.mean_epochs if found else None, _unit(facts)),
        converged(found.point.min_epochs if found and found.point else None, _unit(facts)),
        Cell(text=outcome, sub=printable(reason, 160) if reason else ""),
    )


def _lead(judged: Sequence[tuple[SetFacts, Convergence | None]]) -> str:
    """What the test says; a result that is faster than the reference, but within chance, is scaled back."""
    if len(judged) == 1:
        member, found = judged[0]
        if found is None:
            return f"Not tested: {printable(member.result.no_score_reason or 'the set cannot be scored')}."
        if found.point is None or found.mean_epochs is None:
            return f"No test: {printable(found.reason)}."
        amounts = (found.mean_epochs, found.point.mean, found.point.min_epochs)
        mean, reference, fewest = (converged(amount, found.unit) for amount in amounts)
        text = (
            f"{mean} {found.unit} (Olympic mean), where the reference needs {reference} and at least {fewest} are "
            f"acceptable: {found.status}."
        )
        if found.failing_share is not None:
            text += f" By chance, {failing_words(found.failing_share)}: sets of the reference's own runs."
        factor = member.result.rcp_factor
        return text + (f" The score is scaled by {factor:.4f} for it." if factor and factor != 1.0 else "")
    tested = [(facts, found) for facts, found in judged if found is not None and found.point is not None]
    passed = sum(found.status == "passed" for _, found in tested)
    scaled = sum(facts.result.rcp_factor not in (None, 1.0) for facts, _ in judged)
    text = f"{passed} of {len(tested)} tested converge no faster than the reference allows." if tested else ""
    verb = "is" if scaled == 1 else "are"
    text += f" {scaled} of them {verb} scaled for being faster than its mean." if scaled else ""
    untested = [facts.label for facts, found in judged if found is None or found.point is None]
    reasons = {facts.result.no_score_reason for facts, found in judged if found is None or found.point is None}
    if len(untested) == len(judged) and len(reasons) == 1 and (reason := reasons.pop()):
        return f"Not tested, and no result is drawn: {printable(reason)}."
    return text + (f" Not tested: {names(untested)}; the table says why." if untested else "")
