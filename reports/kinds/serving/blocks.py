"""What is shown of serving beside its table: the answer, latency against load, how it was served, precisions."""

from collections.abc import Callable, Sequence

from reports.charts.scaling import scaling_panel
from reports.charts.xy import Dot, Series, xy_figure
from reports.document.blocks import Block, Cell, Chart, Column, Fold, Prose, Table, numeric, table_of
from reports.kinds.serving.words import Found, mean_rate, promise_words, served_among
from reports.parts.study import study_parts
from reports.results.records import read_study
from reports.results.result import Result
from reports.text.formatting import MISSING, count, duration, num_bytes, percent, plural, printable, ratio, si
from rules.records.measured.serve import LoadGenRun, ServeProcess, ServeRecord

MAX_CHARTS = 12
_LEAST, _MOST = 1e-12, 1e15
"""Of rates and seconds that are drawn."""
_KINDS = (
    "Rates, latencies and service times are measured, those of the virtual clock simulated, bytes computed. VALID is "
    "LoadGen's word for one run of this system, and no MLPerf® result."
)


def serving_blocks(measured: Sequence[Result], id_: str) -> list[Block]:
    """The blocks of measurements of serving; none of other kinds. `id_` begins their ids on the page."""
    found = served_among(measured)
    if not found:
        return []
    loads = [block for each in found[:MAX_CHARTS] for block in _load_blocks(*each, id_)]
    blocks: list[Block] = [Prose(text=_KINDS, kind="note"), _setup_table(found, id_)]
    if any(record.num_copies > 1 for _, record in found):
        blocks.append(_beside_table([each for each in found if each[1].num_copies > 1], id_))
    have_quality = any(record.processes[0].quality for _, record in found)
    if have_quality or len({_precision(record) for _, record in found}) > 1:
        blocks.append(_precision_table(found, id_))
    return [*blocks, *loads]


def _setup_table(found: Sequence[Found], id_: str) -> Table:
    return table_of(
        found,
        (
            ("Measurement", lambda each: each[0].label),
            (
                Column(name="Asked", help="given"),
                lambda each: Cell(text=_asked(each[1]), sub=each[1].scenario.replace("_", " ")),
            ),
            (
                Column(name="Queries", help="given"),
                lambda each: Cell(text=printable(each[1].queries, 40), sub=f"{si(each[1].mean_items)} items, mean"),
            ),
            (Column(name="Served by", help="given"), lambda each: _served_by(each[1])),
            (
                Column(name="Precision", help="given; bytes computed"),
                lambda each: Cell(text=printable(each[1].precision, 20), sub=_tables_words(each[1])),
            ),
            ("Weights", lambda each: each[1].weights),
            (numeric("Of the model", "measured over simulated"), lambda each: _of_model(each[1].processes)),
            (numeric("LoadGen adds", "measured, a query"), lambda each: duration(each[1].processes[0].overhead_s)),
        ),
        id_=f"{id_}-setup",
        caption="How queries were served; queries/s are those of the highest rate that LoadGen judged VALID",
    )


def _asked(record: ServeRecord) -> str:
    words = f"p{record.percentile:g}"
    return words if record.target_latency_s is None else f"{words} within {duration(record.target_latency_s)}"


def _served_by(record: ServeRecord) -> Cell:
    """Processes, workers and threads, and how queries are merged."""
    copies = plural(record.num_copies, "process", "processes")
    words = f"{copies} × {plural(record.num_workers, 'worker')}, {plural(record.num_threads, 'thread')}"
    notes = [] if record.batch_items is None else [f"up to {plural(record.batch_items, 'item')} a call"]
    notes += ["oversubscribed"] if record.is_oversubscribed else []
    return Cell(text=words, sub="; ".join(notes))


def _precision(record: ServeRecord) -> tuple[str, str]:
    return record.precision, record.table_precision


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
            (numeric("Processes", "given"), lambda each: count(each[1].num_copies)),
            (numeric("One alone", "queries/s, measured"), lambda each: si(mean(each[1], "alone_per_s"))),
            (numeric("Together", "queries/s, measured"), lambda each: si(mean(each[1], "queries_per_s"))),
            (numeric("Times one", "measured"), lambda each: _ratio(mean(each[1], "times_alone"))),
            (
                "Cores",
                lambda each: (
                    "oversubscribed: more threads than cores"
                    if each[1].is_oversubscribed
                    else "enough for all threads"
                ),
            ),
        ),
        id_=f"{id_}-colocation",
        caption="Co-location: what processes beside each other answer, each within the limit",
    )


def _ratio(value: float | None) -> str:
    return MISSING if value is None else ratio(value)


def _precision_table(found: Sequence[Found], id_: str) -> Table:
    """What each pair of precisions costs and gives; against the first that is fp32 whole, where one is there."""
    plain = next((each for each, record in found if _precision(record) == ("fp32", "fp32")), None)

    def speed(each: Found) -> Cell:
        times = (
            f"{ratio(mean_rate(each[0]) / mean_rate(plain))} of fp32's"
            if plain is not None and each[0] != plain
            else ""
        )
        return Cell(text=si(mean_rate(each[0])), sub=times)

    def quality(member: str, of_fp32: str) -> Callable[[Found], Cell]:
        def show(each: Found) -> Cell:
            known = each[1].processes[0].quality
            if known is None:
                return Cell(text=MISSING)
            return Cell(text=f"{getattr(known, member):.5f}", sub=f"{getattr(known, of_fp32):.5f} of fp32's")

        return show

    def mlperf_class(each: Found) -> str:
        known = each[1].processes[0].quality
        return MISSING if known is None else known.mlperf_class

    return table_of(
        found,
        (
            ("Measurement", lambda each: each[0].label),
            (Column(name="Products", help="given"), lambda each: printable(each[1].precision, 20)),
            (Column(name="Tables", help="given"), lambda each: printable(each[1].table_precision, 20)),
            (numeric("Bytes", "computed"), lambda each: num_bytes(each[1].model_bytes)),
            (numeric("Queries/s", "measured, mean"), speed),
            (numeric("AUC", "measured, whole split"), quality("auc", "auc_ratio")),
            (
                numeric("Normalised entropy", "measured; lower is better"),
                quality("normalised_entropy", "entropy_ratio"),
            ),
            (Column(name="MLPerf® class", help="of fp32's AUC"), mlperf_class),
        ),
        id_=f"{id_}-precision",
        caption="What reduced precision buys and costs; quality is held against equal weights in fp32, and random "
        "ones have none",
        is_sortable=len(found) > 1,
    )


def _load_blocks(measured: Result, record: ServeRecord, begin: str) -> list[Block]:
    """Latency against load, or LoadGen's runs alone where there is no limit; and the virtual clock's table."""
    id_ = _identifier(f"{begin}-load-{measured.label}")
    chart = _load_chart(measured, record, id_)
    blocks: list[Block] = [_runs_table(record, f"{id_}-table") if chart is None else chart]
    study = read_study(measured.path.parent / f"{measured.kind}_0")
    if study is not None:
        words = f"The virtual clock's table, simulated: {measured.label}"
        blocks.append(Fold(summary=words, blocks=study_parts(study)))
    return blocks


def _load_chart(measured: Result, record: ServeRecord, id_: str) -> Chart | None:
    """The virtual clock's curve, LoadGen's runs, and the limit. None without a limit."""
    process, limit_s = record.processes[0], record.target_latency_s
    curve = [(point.queries_per_s, point.latency_s) for point in process.curve]
    drawn = [*curve, *((run.completed_per_s, run.latency_s) for run in process.runs)]
    if limit_s is None or not curve or not all(_LEAST < value < _MOST for point in drawn for value in point):
        return None
    # Rates beyond what the limit allows by far would leave no room for those near it.
    shown = [point for point in curve if point[1] <= 4 * limit_s] or curve[:2]
    series = [
        Series(name="virtual clock, simulated", hue=0, dots=tuple(_dot(*point, "simulated") for point in shown)),
        *(
            Series(name=f"LoadGen, measured: {word}", hue=hue, dots=dots, is_joined=False)
            for word, hue, is_valid in (("VALID", 2, True), ("INVALID", 1, False))
            if (dots := tuple(_run_dot(run) for run in process.runs if run.is_valid is is_valid))
        ),
    ]
    limit = f"limit {duration(limit_s)}"
    panel = scaling_panel(
        series, ("queries per second", si), (f"latency in ms, p{record.percentile:g}", "{:g}".format),
        target=limit_s * 1e3, target_words=limit,
    )  # fmt: skip
    title = f"Latency against load: {measured.label}"
    lead = f"{si(process.queries_per_s)} queries/s {promise_words(record)} were VALID" + (
        f"; the virtual clock said {si(process.modelled_per_s)}." if process.modelled_per_s else "."
    )
    about = f"One dot per rate. {lead} The line across is the {limit}."
    figure = xy_figure(panel, id_=id_, title=title, description=about)
    return Chart(figure=figure, heading=title, lead=lead, table=_runs_table(record, f"{id_}-table"))


def _identifier(text: str) -> str:
    return "".join(char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in text)


def _dot(rate: float, latency_s: float, words: str) -> Dot:
    return Dot(x=rate, y=latency_s * 1e3, hint=f"{si(rate)} queries/s: {duration(latency_s)}, {words}")


def _run_dot(run: LoadGenRun) -> Dot:
    words = "VALID" if run.is_valid else f"INVALID: {printable(run.reason, 120)}"
    return _dot(run.completed_per_s, run.latency_s, words)


def _runs_table(record: ServeRecord, id_: str) -> Table:
    """The runs of LoadGen in the first process."""
    return table_of(
        record.processes[0].runs,
        (
            (Column(name="Run", help="its files' folder"), lambda run: printable(run.folder, 80)),
            (numeric("Asked", "queries/s of each process"), lambda run: si(run.asked_per_s)),
            (numeric("Completed", "queries/s, measured"), lambda run: si(run.completed_per_s)),
            (numeric("Queries", "measured"), lambda run: count(run.num_queries)),
            (numeric("Late", "measured"), lambda run: count(run.num_late)),
            (numeric(f"p{record.percentile:g}", "measured"), lambda run: duration(run.latency_s)),
            (
                "LoadGen",
                lambda run: Cell(text="VALID" if run.is_valid else "INVALID", sub=printable(run.reason or "", 120)),
            ),
        ),
        id_=id_,
        caption="The runs of LoadGen in the first process, in their order",
    )
