"""Make the blocks of a page on serving: the result, the setup, co-location, precisions, and latency against rate."""

from collections.abc import Sequence
from functools import partial

from harness.extensions.serving.records import LoadGenRun, ServeRecord
from harness.extensions.serving.shown.words import ServedResult, promise_words, rest_words, served_among, spread_words
from reports.charts.scaling import scaling_panel
from reports.charts.xy import Dot, Series, xy_figure
from reports.document.blocks import Block, Cell, Chart, Fold, Prose, Table, TableColumn, numeric, table_of
from reports.parts.study import study_parts
from reports.results.records import read_study
from reports.results.result import Result
from reports.text.formatting import count, duration, num_bytes, percent, plural, printable, ratio, si
from rules.records.metrics import METRICS

MAX_CHARTS = 12
_LEAST = 1e-12
"""Least value that charts draw, for rates in queries per second and for latencies in seconds."""
_MOST = 1e15
"""Greatest value that charts draw, for rates in queries per second and for latencies in seconds."""
_KINDS = (
    "Rates, latencies and service times are measured, or simulated where so named; bytes are computed. VALID is "
    "LoadGen's verdict on one run of this system, and is not an MLPerf® result."
)


def serving_blocks(measured: Sequence[Result], id_: str) -> list[Block]:
    """Return the report blocks (sentences, tables, charts) on the measurements of serving among `measured`; an empty
    list where there are none. The blocks' ids begin with `id_`."""
    found = served_among(measured)
    if not found:
        return []
    said = Prose(text=" ".join(f"{each.result.label}: {rest_words(each)}." for each in found))
    blocks: list[Block] = [said, Prose(text=_KINDS, kind="note"), _setup_table(found, id_)]
    if beside := [each for each in found if each.record.num_copies > 1]:
        blocks.append(_beside_table(beside, id_))
    if any(each.first.quality for each in found) or len({_precision(each.record) for each in found}) > 1:
        blocks.append(_precision_table(found, id_))
    return [*blocks, *(block for each in found[:MAX_CHARTS] for block in _load_blocks(each, id_))]


def _setup_table(found: Sequence[ServedResult], id_: str) -> Table:
    return table_of(
        found,
        (
            ("Measurement", "result.label"),
            (TableColumn(name="Asked", help="given"), "record", _asked),
            (TableColumn(name="Queries", help="given"), "record", _queries),
            (TableColumn(name="Served by", help="given"), "record", _served_by),
            (TableColumn(name="Precision", help="given; bytes computed"), "record", _precision_cell),
            ("Weights", "record.weights"),
            (numeric("Of the simulation", "measured over simulated"), _model_cell),
            (numeric("Spread", "simulated"), _spread_cell),
        ),
        id_=f"{id_}-setup",
        caption="How queries were served; the spread contains, with 95 % confidence for one process, the rate at "
        "which half of all runs of this length are VALID, over random arrivals",
    )


def _spread_cell(served: ServedResult) -> Cell:
    """Return a cell with the simulated spread (95 % interval) of one process's rate, and below it the steady-state
    rate."""
    steady = "" if served.steady_per_s is None else f"steady state {si(served.steady_per_s)}"
    return Cell(text=spread_words(served) or "—", sub=steady)


def _model_cell(served: ServedResult) -> Cell:
    """Return a cell with the measured rate as a share of the simulated one, and below it LoadGen's overhead for a
    query."""
    return Cell(text=percent(served.of_modelled), sub=f"LoadGen adds {duration(served.first.overhead_s)}")


def _asked(record: ServeRecord) -> Cell:
    limit = "" if record.target_latency_s is None else f" within {duration(record.target_latency_s)}"
    return Cell(text=f"p{record.percentile:g}{limit}", sub=record.scenario.replace("_", " "))


def _queries(record: ServeRecord) -> Cell:
    return Cell(text=printable(record.queries, 40), sub=f"{si(record.mean_items)} items, mean")


def _served_by(record: ServeRecord) -> Cell:
    """Return a cell with the numbers of processes, workers and threads, and below them the maximum number of items
    (candidates to rank) in a call."""
    copies = plural(record.num_copies, "process", "processes")
    words = f"{copies} × {plural(record.num_workers, 'worker')}, {plural(record.num_threads, 'thread')}"
    notes = [] if record.batch_items is None else [f"up to {plural(record.batch_items, 'item')} a call"]
    notes += ["oversubscribed"] if record.is_oversubscribed else []
    return Cell(text=words, sub="; ".join(notes))


def _precision(record: ServeRecord) -> tuple[str, str]:
    return record.precision, record.table_precision


def _precision_cell(record: ServeRecord) -> Cell:
    products, tables = map(_name, _precision(record))
    return Cell(text=products, sub=f"tables {tables}, {num_bytes(record.model_bytes)}")


def _name(precision: str) -> str:
    return printable(precision, 20)


def _beside_table(found: Sequence[ServedResult], id_: str) -> Table:
    cores = {True: "oversubscribed: more threads than cores", False: "enough for all threads"}
    return table_of(
        found,
        (
            ("Measurement", "result.label"),
            (numeric("Processes", "given"), "record.num_copies", count),
            (numeric("One alone", "queries/s, measured"), lambda each: each.mean("alone_per_s"), si),
            (numeric("Together", "queries/s, measured"), lambda each: each.rate, si),
            (numeric("Times one", "measured"), lambda each: each.mean("times_alone"), ratio),
            ("Cores", "record.is_oversubscribed", cores.get),
        ),
        id_=f"{id_}-colocation",
        caption="Co-location: rates of several processes at the same time, each within the limit",
    )


def _precision_table(found: Sequence[ServedResult], id_: str) -> Table:
    """Return the table of rate and quality by precision. The first measurement that is wholly in fp32, if there is
    one, is the reference, and other rates are also given as ratios to it."""
    plain = next((each for each in found if _precision(each.record) == ("fp32", "fp32")), None)

    def speed(each: ServedResult) -> Cell:
        if plain is None or each == plain:
            return Cell(text=si(each.rate))
        return Cell(text=si(each.rate), sub=f"{ratio(each.rate / plain.rate)} of fp32's")

    def against(member: str, ratio_member: str, each: ServedResult) -> Cell | None:
        value, of_fp32 = (getattr(each.first.quality, name, None) for name in (member, ratio_member))
        if value is None:
            return None
        return Cell(text=f"{value:.5f}", sub="" if of_fp32 is None else f"{of_fp32:.5f} of fp32's")

    def shown(member: str) -> bool:
        return any(getattr(each.first.quality, member, None) is not None for each in found)

    qualities = [
        (numeric(metric.capital, "measured, whole split"), partial(against, metric.member, f"{metric.member}_ratio"))
        for metric in METRICS.values()
        if shown(metric.member)
    ]
    entropy = numeric("Normalised entropy", "measured; lower is better")
    return table_of(
        found,
        (
            ("Measurement", "result.label"),
            (TableColumn(name="Products", help="given"), "record.precision", _name),
            (TableColumn(name="Tables", help="given"), "record.table_precision", _name),
            (numeric("Bytes", "computed"), "record.model_bytes", num_bytes),
            (numeric("Queries/s", "measured, mean"), speed),
            *qualities,
            (entropy, partial(against, "normalised_entropy", "entropy_ratio")),
            (TableColumn(name="MLPerf® class", help="of fp32's AUC"), "first.quality.mlperf_class"),
        ),
        id_=f"{id_}-precision",
        caption="Rate and quality by precision; quality is compared with that of the same weights in fp32, and "
        "random weights have none",
        is_sortable=len(found) > 1,
    )


def _load_blocks(served: ServedResult, begin: str) -> list[Block]:
    """Return two report blocks on the load of one served configuration. The first is the chart of latency against
    rate; without a latency limit, it is the table of LoadGen's runs. The second is the table of the simulation, which
    is left out if the simulation was not kept."""
    measured = served.result
    id_ = _identifier(f"{begin}-load-{measured.label}")
    blocks: list[Block] = [_load_chart(served, id_) or _runs_table(served, f"{id_}-table")]
    study = read_study(measured.path.parent / f"{measured.kind}_0")
    if study is not None:
        words = f"The simulation's table: {measured.label}"
        blocks.append(Fold(summary=words, blocks=study_parts(study)))
    return blocks


def _load_chart(served: ServedResult, id_: str) -> Chart | None:
    """Return a chart of latency against rate: simulated curve, LoadGen's runs, and the limit; None without a latency
    limit."""
    record, process, limit_s = served.record, served.first, served.record.target_latency_s
    curve = [(point.queries_per_s, point.latency_s) for point in process.curve]
    drawn = [*curve, *((run.asked_per_s * record.num_copies, run.latency_s) for run in process.runs)]
    if limit_s is None or not curve or not all(_LEAST < value < _MOST for point in drawn for value in point):
        return None
    # Latencies far beyond the limit would leave no room on the chart for latencies near the limit.
    shown = [point for point in curve if point[1] <= 4 * limit_s] or curve[:2]
    series = [
        Series(name="simulation", hue=0, dots=tuple(_dot(*point, "simulated") for point in shown)),
        *(
            Series(name=f"LoadGen, measured: {word}", hue=hue, dots=dots, is_joined=False)
            for word, hue, is_valid in (("VALID", 2, True), ("INVALID", 1, False))
            if (dots := tuple(_run_dot(run, record) for run in process.runs if run.is_valid is is_valid))
        ),
    ]
    limit = f"limit {duration(limit_s)}"
    panel = scaling_panel(
        series,
        ("queries per second", si),
        (f"latency in ms, p{record.percentile:g}", "{:g}".format),
        target=limit_s * 1e3,
        target_words=limit,
    )
    title = f"Latency against load: {served.result.label}"
    allowed = f"; the same limit allows {si(process.modelled_per_s or 0.0)} queries/s in a simulated steady state."
    lead = f"{si(process.queries_per_s)} queries/s {promise_words(record)} were VALID" + (
        allowed if process.modelled_per_s else "."
    )
    about = f"One dot per rate. {lead} The horizontal line is the {limit}."
    figure = xy_figure(panel, id_=id_, title=title, description=about)
    return Chart(figure=figure, heading=title, lead=lead, table=_runs_table(served, f"{id_}-table"))


def _identifier(text: str) -> str:
    return "".join(char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in text)


def _dot(rate: float, latency_s: float, words: str) -> Dot:
    return Dot(x=rate, y=latency_s * 1e3, hint=f"{si(rate)} queries/s: {duration(latency_s)}, {words}")


def _run_dot(run: LoadGenRun, record: ServeRecord) -> Dot:
    words = "VALID" if run.is_valid else f"INVALID: {printable(run.reason, 120)}"
    words += f", held up for {duration(run.stall_s)}" if run.is_held_up else ""
    return _dot(run.asked_per_s * record.num_copies, run.latency_s, words)


def _runs_table(served: ServedResult, id_: str) -> Table:
    """Return the table of LoadGen's runs in the first process."""
    return table_of(
        served.first.runs,
        (
            (TableColumn(name="Run", help="its files' folder"), "folder", lambda folder: printable(folder, 80)),
            (numeric("Asked", "queries/s of each process"), "asked_per_s", si),
            (numeric("Completed", "queries/s, measured"), "completed_per_s", si),
            (numeric("Queries", "measured"), "num_queries", count),
            (numeric("Late", "measured"), "num_late", count),
            (numeric(f"p{served.record.percentile:g}", "measured"), "latency_s", duration),
            ("LoadGen", _verdict),
        ),
        id_=id_,
        caption="The runs of LoadGen in the first process, in the order in which they were made",
    )


def _verdict(run: LoadGenRun) -> Cell:
    held_up = [f"held up for {duration(run.stall_s)}"] if run.is_held_up else []
    notes = [printable(run.reason, 120)] if run.reason else []
    return Cell(text="VALID" if run.is_valid else "INVALID", sub="; ".join(notes + held_up))
