"""Makes the section on convergence against the reference. It shows the epochs (or samples) to converge of results
among the reference convergence points (RCPs) of the MLPerf round that judges the results."""

from collections.abc import Sequence
from dataclasses import replace

from reports.charts.reference import ReferenceLevel, ResultMark, reference_figure
from reports.document.blocks import Block, Cell, Chart, Prose, numeric, text_table
from reports.document.page import PageSection
from reports.facts.reference_points import find_points
from reports.page.figures.detail import detailed
from reports.page.figures.times import hue_number
from reports.results.result import Result
from reports.text.formatting import converged, count, names, plural, printable
from rules.logs import keys
from rules.scoring.good_sets import failing_percent, failing_share, failing_words
from rules.scoring.rcp import Convergence, ReferencePoint, Unit


def reference_section(group: Sequence[Result], id_: str) -> PageSection:
    """Return the section with one chart per set of reference convergence points, since every MLPerf round has points
    of its own; results without such points are named in a sentence."""
    by_points: dict[tuple[ReferencePoint, ...], list[tuple[Result, Convergence | None]]] = {}
    without: list[Result] = []
    for result in group:
        benchmark, points = find_points(result)
        if benchmark is None or not points:
            without.append(result)
            continue
        by_points.setdefault(points, []).append((result, result.score.convergence))
    blocks: list[Block] = []
    for number, (points, judged) in enumerate(by_points.items()):
        chart = _chart(points, judged, group, f"{id_}-rcp{number + 1}")
        rounds = ", ".join(dict.fromkeys(f"v{result.score.round}" for result, _ in judged if result.score.round))
        # Each MLPerf round has reference points of its own; where there are several, each chart names its round.
        blocks.append(replace(chart, heading=f"Points of round {rounds}") if len(by_points) > 1 else chart)
    if without:
        who = "" if len(without) == len(group) else f" ({names([entry.label for entry in without])})"
        reasons = {entry.score.rcp_reason for entry in without if entry.score.rcp_reason}
        reason = printable(next(iter(reasons))) if len(reasons) == 1 else "no reference convergence points are known"
        blocks.append(Prose(text=f"No RCP{who}: {reason}.", kind="absent"))
    heading = "Convergence against the reference"
    return PageSection(id=f"{id_}-reference", heading=heading, name="Reference", blocks=tuple(blocks))


def _chart(
    points: Sequence[ReferencePoint],
    judged: Sequence[tuple[Result, Convergence | None]],
    group: Sequence[Result],
    id_: str,
) -> Chart:
    places = {result.index: place for place, result in enumerate(group)}
    results = [
        ResultMark(
            name=result.label,
            hue=hue_number(places[result.index], group),
            batch_size=result.score.runs[0].global_batch_size or 1,
            mean_epochs=found.mean_epochs,
            is_passed=found.status == "passed",
        )
        for result, found in judged
        if found is not None
        and found.mean_epochs is not None
        and not result.is_repeat
        and (result.score.runs[0].global_batch_size or 0) > 0
    ]
    drawn = [
        ReferenceLevel(
            batch_size=point.global_batch_size, mean=point.mean, deviation=point.stdev, least=point.min_epochs
        )
        for point in points
    ]
    lead = _lead(judged)
    unit = _unit(judged[0][0])
    title = f"{unit.capitalize()} to converge over batch size"
    of_unit = numeric(unit.capitalize(), "Olympic mean")
    columns = ("Point", numeric("Batch size"), of_unit, numeric("Fewest acceptable"), "Outcome")
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
    shown = {result.index for result in detailed([result for result, _ in judged])}
    rows += [
        _result_row(result, found)
        for result, found in judged
        if result.index in shown or found is None or found.status != "passed"
    ]
    left_out = len(points) + len(judged) - len(rows)
    return Chart(
        figure=reference_figure(drawn, results, unit=unit, id_=id_, title=title, description=f"{title}. {lead}"),
        lead=lead,
        table=text_table(
            columns,
            rows,
            id_=f"{id_}-table",
            caption=f"Olympic means of {unit} to converge, with the standard deviation of the reference's runs"
            + _first_epoch(judged[0][0])
            + (f"; {left_out} more passed" if left_out else ""),
        ),
    )


def _failing(point: ReferencePoint, result: Result) -> str:
    """Return in words how often the convergence test of a benchmark that is not MLPerf's rejects sets that converge
    like the reference; '' for official benchmarks."""
    num_runs = result.score.num_runs_required
    if result.status != "own" or num_runs is None or not point.epochs:
        return ""
    return failing_words(failing_share(point.epochs, num_runs, point.mean / point.max_speedup))


def _unit(result: Result) -> Unit:
    """Return the unit, epochs or samples, of the reference convergence points of a set's benchmark."""
    benchmark, _ = find_points(result)
    in_samples = benchmark is not None and benchmark.quality.convergence_unit == keys.SAMPLES_COUNT
    return "samples" if in_samples else "epochs"


def _first_epoch(result: Result) -> str:
    """Return a note for benchmarks whose logs count epochs from 1: the logged epoch_num is 1 more than the number of
    epochs trained. '' for benchmarks whose logs count from 0."""
    benchmark, _ = find_points(result)
    first = benchmark.quality.first_epoch_num if benchmark is not None else 0
    return f"; as logged, where epoch_num counts from {first}: {first} more than the epochs trained" if first else ""


def _result_row(result: Result, found: Convergence | None) -> tuple[Cell | str, ...]:
    if found is None:
        reason = result.score.no_score_reason or ""
    elif result.is_scaled:
        reason = f"score × {result.score.rcp_factor:.4f}"
    else:
        reason = found.reason if found.status in ("missing", "none", "failed") else ""
        reason = reason.partition(": ")[0] if found.status == "failed" else reason  # the row has the numbers
    return (
        result.label,
        count(result.score.runs[0].global_batch_size if result.score.runs else None),
        converged(found.mean_epochs if found else None, _unit(result)),
        converged(found.point.min_epochs if found and found.point else None, _unit(result)),
        Cell(text=found.status if found else "not tested", sub=printable(reason, 400) if reason else ""),
    )


def _lead(judged: Sequence[tuple[Result, Convergence | None]]) -> str:
    """Return in words the outcome of the convergence test (RCP test), and which scores are normalised because the
    result converged faster than the reference's mean by chance."""
    if len(judged) == 1:
        member, found = judged[0]
        if found is None:
            return f"Not tested: {printable(member.score.no_score_reason or 'the set cannot be scored')}."
        if found.point is None or found.mean_epochs is None:
            return f"No test: {printable(found.reason)}."
        amounts = (found.mean_epochs, found.point.mean, found.point.min_epochs)
        mean, reference, fewest = (converged(amount, found.unit) for amount in amounts)
        text = (
            f"Convergence test {found.status}: the runs need {mean} {found.unit} (Olympic mean), the reference "
            f"{reference}; a mean below {fewest} is not accepted."
        )
        if found.failing_share is not None:
            failed = failing_percent(found.failing_share) if found.failing_share else "none"
            text += f" The convergence test wrongly rejects {failed} of the sets drawn from the reference's own runs."
        if not member.is_scaled:
            return text
        factor, why = f"{member.score.rcp_factor:.4f}", "because the runs converge faster than the reference's mean"
        return f"{text} The score is scaled by {factor}, {why}."
    tested = [(result, found) for result, found in judged if found is not None and found.point is not None]
    passed = sum(found.status == "passed" for _, found in tested)
    scaled = sum(result.is_scaled for result, _ in judged)
    sets = plural(len(tested), "tested set")
    text = (
        f"{passed} of {sets} passed the convergence test, which fails sets that converge too fast." if tested else ""
    )
    verb = "is" if scaled == 1 else "are"
    if scaled:
        text += f" {plural(scaled, 'score')} {verb} scaled, as the runs converge faster than the reference's mean."
    untested = [result.label for result, found in judged if found is None or found.point is None]
    reasons = {result.score.no_score_reason for result, found in judged if found is None or found.point is None}
    if len(untested) == len(judged) and len(reasons) == 1 and (reason := reasons.pop()):
        return f"Not tested, and no result is drawn: {printable(reason)}."
    return text + (f" Not tested: {names(untested)}; the table says why." if untested else "")
