"""What is shown of serving beside its table: latency against load with the limit, how it was served, precisions."""

from collections.abc import Sequence

from reports.charts.scaling import Axes, Dot, Series, link_figure
from reports.document.blocks import Block, Cell, Chart, Table, numeric, table_of
from reports.facts.measured_sets import MeasuredSet
from reports.text.formatting import MISSING, count, duration, num_bytes, percent, printable, ratio, si
from rules.records.measured.serve import ServeProcess, ServeRecord

MAX_CHARTS = 12
_LEAST, _MOST = 1e-12, 1e15
"""Of rates and seconds that are drawn."""

Found = tuple[MeasuredSet, ServeRecord]


def serving_blocks(measured: Sequence[MeasuredSet], id_: str) -> list[Block]:
    """The blocks of measurements of serving; none of other kinds. `id_` begins their ids on the page."""
    found = [(each, each.record) for each in measured if isinstance(each.record, ServeRecord)]
    if not found:
        return []
    charts = [chart for each in found[:MAX_CHARTS] if (chart := _load_chart(*each, id_)) is not None]
    blocks: list[Block] = [_setup_table(found, id_)]
    if any(record.num_copies > 1 for _, record in found):
        blocks.append(_beside_table([each for each in found if each[1].num_copies > 1], id_))
    if any(record.processes[0].quality for _, record in found):
        blocks.append(_precision_table(found, id_))
    return [*blocks, *charts]


def limit_text(record: ServeRecord) -> str:
    """'p95 within 25 ms'; without a limit 'p95'."""
    words = f"p{record.percentile:g}"
    return words if record.target_latency_s is None else f"{words} within {duration(record.target_latency_s)}"


def _setup_table(found: Sequence[Found], id_: str) -> Table:
    return table_of(
        found,
        (
            ("Measurement", lambda each: each[0].label),
            ("Asked", lambda each: Cell(text=limit_text(each[1]), sub=each[1].scenario.replace("_", " "))),
            (
                "Queries",
                lambda each: Cell(
                    text=printable(each[1].queries, 40), sub=f"{si(each[1].mean_items)} items on average"
                ),
            ),
            (
                numeric("Processes", "at the same time"),
                lambda each: Cell(
                    text=count(each[1].num_copies), sub="oversubscribed" if each[1].is_oversubscribed else ""
                ),
            ),
            (numeric("Workers", "of a process"), lambda each: count(each[1].num_workers)),
            (numeric("Threads", "of a process"), lambda each: count(each[1].num_threads)),
            (numeric("Items a call", "at most"), lambda each: count(each[1].batch_items)),
            ("Precision", lambda each: Cell(text=printable(each[1].precision, 20), sub=_tables_words(each[1]))),
            ("Weights", lambda each: each[1].weights),
            (numeric("Of the model", "measured queries/s over modelled"), lambda each: _of_model(each[1].processes)),
            (numeric("LoadGen adds", "to a query; measured"), lambda each: duration(each[1].processes[0].overhead_s)),
        ),
        id_=f"{id_}-setup",
        caption="How queries were served; queries/s are those of the highest rate that MLPerf LoadGen judged VALID",
    )


def _tables_words(record: ServeRecord) -> str:
    return f"tables {printable(record.table_precision, 20)}, {num_bytes(record.model_bytes)}"


def _of_model(processes: Sequence[ServeProcess]) -> str:
    shares = [process.queries_per_s / process.modelled_per_s for process in processes if process.modelled_per_s]
    return percent(sum(shares) / len(shares)) if shares else MISSING


def _beside_table(found: Sequence[Found], id_: str) -> Table:
    def mean(record: ServeRecord, member: str) -> float | None:
        values = [value for process in record.processes if (value := getattr(process, member)) is not None]
        return sum(values) / len(values) if values else None

    return table_of(
        found,
        (
            ("Measurement", lambda each: each[0].label),
            (numeric("Processes"), lambda each: count(each[1].num_copies)),
            (numeric("One alone", "queries/s"), lambda each: si(mean(each[1], "alone_per_s"))),
            (numeric("Together", "queries/s"), lambda each: si(mean(each[1], "queries_per_s"))),
            (numeric("Times one", "measured"), lambda each: _ratio(mean(each[1], "times_alone"))),
            (
                "Cores",
                lambda each: "more threads than cores" if each[1].is_oversubscribed else "enough for all threads",
            ),
        ),
        id_=f"{id_}-colocation",
        caption="Co-location: what processes beside each other answer, each within the limit",
    )


def _ratio(value: float | None) -> str:
    return MISSING if value is None else ratio(value)


def _precision_table(found: Sequence[Found], id_: str) -> Table:
    known = [
        (each, record, quality) for each, record in found if (quality := record.processes[0].quality) is not None
    ]
    return table_of(
        known,
        (
            ("Measurement", lambda entry: entry[0].label),
            ("Products", lambda entry: printable(entry[1].precision, 20)),
            ("Tables", lambda entry: printable(entry[1].table_precision, 20)),
            (numeric("Bytes", "computed"), lambda entry: num_bytes(entry[1].model_bytes)),
            (numeric("Queries/s", "mean"), lambda entry: si(entry[0].mean("queries_per_s"))),
            (numeric("AUC", "whole evaluation split"), lambda entry: f"{entry[2].auc:.5f}"),
            (numeric("Of fp32", "AUC"), lambda entry: f"{entry[2].auc_ratio:.5f}"),
            ("MLPerf class", lambda entry: entry[2].mlperf_class),
            (numeric("Normalised entropy"), lambda entry: f"{entry[2].normalised_entropy:.5f}"),
            (numeric("Of fp32", "normalised entropy"), lambda entry: f"{entry[2].entropy_ratio:.5f}"),
        ),
        id_=f"{id_}-precision",
        caption="What reduced precision buys and costs, with equal weights",
        is_sortable=len(known) > 1,
    )


def _load_chart(measured: MeasuredSet, record: ServeRecord, begin: str) -> Chart | None:
    """Latency against load: the virtual clock's curve, LoadGen's runs, and the limit. None without a limit."""
    process, limit_s = record.processes[0], record.target_latency_s
    curve = [(point.queries_per_s, point.latency_s) for point in process.curve]
    runs = sorted(
        (run.completed_per_s, run.latency_s, "VALID" if run.is_valid else f"INVALID: {printable(run.reason, 120)}")
        for run in process.runs
    )
    drawn = [*curve, *((rate, latency_s) for rate, latency_s, _ in runs)]
    if limit_s is None or not curve or not all(_LEAST < value < _MOST for point in drawn for value in point):
        return None
    # Rates beyond what the limit allows by far would leave no room for those near it.
    shown = [point for point in curve if point[1] <= 20 * limit_s] or curve[:2]
    series = [
        Series(name="virtual clock, modelled", hue=0, dots=tuple(_dot(*point, "modelled") for point in shown)),
        Series(name="LoadGen, measured", hue=1, dots=tuple(_dot(*run) for run in runs)),
    ]
    axes = Axes(
        x_name="queries per second",
        y_name=f"latency, ms, p{record.percentile:g}; the line is the limit",
        x_words=si,
        y_words=lambda value: f"{value:g}",
        reference=limit_s * 1e3,
    )
    title = f"Latency against load: {measured.label}"
    lead = f"{limit_text(record)}: {si(process.queries_per_s)} queries/s were VALID" + (
        f"; the virtual clock said {si(process.modelled_per_s)}." if process.modelled_per_s else "."
    )
    id_ = _identifier(f"{begin}-load-{measured.label}")
    figure = link_figure(series, axes, id_=id_, title=title, description=f"One dot per rate. {lead}")
    return Chart(figure=figure, heading=title, lead=lead, table=_runs_table(record, id_))


def _identifier(text: str) -> str:
    return "".join(char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in text)


def _dot(rate: float, latency_s: float, words: str) -> Dot:
    return Dot(x=rate, y=latency_s * 1e3, hint=f"{si(rate)} queries/s: {duration(latency_s)}, {words}")


def _runs_table(record: ServeRecord, id_: str) -> Table:
    """The runs of LoadGen in the first process."""
    return table_of(
        record.processes[0].runs,
        (
            (numeric("Asked", "queries/s of each process"), lambda run: si(run.asked_per_s)),
            (numeric("Completed", "queries/s"), lambda run: si(run.completed_per_s)),
            (numeric("Queries"), lambda run: count(run.num_queries)),
            (numeric("Late"), lambda run: count(run.num_late)),
            (numeric(f"p{record.percentile:g}"), lambda run: duration(run.latency_s)),
            (
                "LoadGen",
                lambda run: Cell(text="VALID" if run.is_valid else "INVALID", sub=printable(run.reason or "", 120)),
            ),
            ("Files", lambda run: printable(run.folder, 80)),
        ),
        id_=f"{id_}-table",
        caption="The runs of LoadGen in the first process, in their order",
    )
