"""Measure the queries per second that a model serves within a latency limit, in one process or several at the same
time.

In a measurement, calls of the model are timed, a simulation finds the rate near which the limit is met, and LoadGen
judges real rates around that rate. With several processes, rank 0 first measures alone while the others wait. Then
all processes measure at the same time, each with queries of its own.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config.catalog import WorkloadConfig
from harness.config.run_config import Override, RunConfig, resolve
from harness.extensions.serving.bench import Bench, ProcessMeasurements
from harness.extensions.serving.config import SERVE, explain_needs, library_sizes, read_serve
from harness.extensions.serving.loadgen import require_loadgen, seeds_of_process
from harness.extensions.serving.records import CurvePoint, ServedQuality, ServeProcess, ServeRecord
from harness.extensions.serving.rounds import LAST_ROUNDS, ROUNDS
from harness.extensions.serving.study import make_queue_study
from harness.extensions.serving.user_conf import MODELS
from harness.foundation.errors import HarnessError
from harness.foundation.files import write_record
from harness.measure.kinds import Job, Kind, OnEvent, Option
from harness.measure.refusals import refuse_unservable
from harness.system.resources import peak_rss_bytes, read_resources
from reference_models.config.sections import RuntimeConfig
from reference_models.data.synthetic.config import count_bytes_per_sample
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess, World
from reference_models.serving.servable import explain_emulation
from rules.records.codec import VERSION
from rules.records.run_set import ChoiceRecord, RunSetRecord, ServiceChoice
from rules.records.study import STUDY_FILE

if TYPE_CHECKING:
    import torch

USUAL_PROCESSES = 5
WEIGHTS_KEY = "serve.weights"
"""Key in a benchmark definition (TOML) that names the folder of weights, kept by a training run, of the model to
measure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeJob(Job):
    """Job of one process that measures serving; table [serve] of the benchmark definition has the other settings."""

    index: int = 0
    """Number of the process in its set (one measurement in several processes), from 0: processes of equal number have
    equal arrivals of queries in every set."""


def serve_queries(job: ServeJob, world: World, on_event: OnEvent) -> ServeRecord | None:
    """Build the model, time its calls, and let LoadGen judge rates of queries; return the content of extra/serve.json
    on rank 0, None on other ranks.

    Raises HarnessError (exit 7) where no rate meets the limit.
    """
    require_loadgen()
    from harness.extensions.serving.model import build_served

    started = datetime.now(UTC)
    benchmark, config = job.parse()
    serve = read_serve(benchmark.sections)
    num_threads = config.runtime.threads or 1
    served, quality = build_served(job, benchmark, config, serve, with_quality=world.rank == 0)
    seed = (job.seed + world.rank) % 2**62
    seeds = seeds_of_process(job.index * world.size + world.rank, serve.mlperf_round)
    bench = Bench(
        answer=served.answer,
        sizes=served.sizes,
        serve=serve,
        seed=seed,
        seeds=seeds,
        folder=Path(job.folder) / "loadgen",
        on_event=on_event,
    )
    found, alone = measure_beside(bench.measure, bench.measure_overhead, world)
    if found is None:
        return None
    if found.modelled.curve:
        rates = [rate for rate, _ in found.modelled.curve]
        workers, overhead_s = bench.workers, found.overhead_s
        study = make_queue_study(benchmark, serve, seed, rates, found.traffic, found.service, workers, overhead_s)
        write_record(Path(job.folder) / STUDY_FILE, study)
    mean_items, num_copies = sum(served.sizes) / len(served.sizes), world.size
    process = describe_process(bench, found, alone, mean_items, num_copies, quality, started)
    return ServeRecord(
        schema_version=VERSION,
        scenario=serve.scenario,
        target_latency_s=serve.limit_s,
        percentile=serve.percentile,
        queries=serve.queries_label,
        mean_items=mean_items,
        library_queries=len(served.sizes),
        problem_sha256=serve.problem_sha256,
        batch_items=serve.max_items,
        split_items=serve.split_from,
        batch_wait_s=serve.batch_wait_ms / 1e3,
        num_workers=serve.num_workers,
        num_threads=num_threads,
        num_copies=num_copies,
        is_oversubscribed=num_copies * num_threads > read_resources().num_cores,
        weights="kept" if serve.weights else "trained" if serve.train_samples else "random",
        precision=config.runtime.precision,
        table_precision=config.runtime.table_precision,
        model_bytes=served.servable.served_bytes.total_bytes,
        loadgen_version=version("mlcommons-loadgen"),
        processes=(process,),
    )


def describe_process(
    bench: Bench,
    found: ProcessMeasurements,
    alone: ProcessMeasurements | None,
    mean_items: float,
    num_copies: int,
    quality: ServedQuality | None,
    started: datetime,
) -> ServeProcess:
    """Return the record of `num_copies` processes that served at the same time. `alone` has the measurements of one
    process that served alone; None where there is only one."""
    is_asked = found.loadgen_share is not None
    valid_per_s = found.valid_per_s * (num_copies if is_asked else 1)
    low, high = (None, None) if found.spread is None else found.spread.around(found.bracket)
    return ServeProcess(
        queries_per_s=valid_per_s,
        completed_per_s=found.best.completed_per_s,
        items_per_s=valid_per_s * mean_items,
        invalid_per_s=found.bracket.high,
        spread_low_per_s=None if low is None else low * num_copies,
        spread_high_per_s=None if high is None else high * num_copies,
        steady_state_per_s=None if found.steady_state_per_s is None else found.steady_state_per_s * num_copies,
        steady_state_missing=found.steady_state_missing,
        loadgen_share=found.loadgen_share,
        schedule_seed=str(bench.seeds.schedule),
        latency_s=found.best.latency_s,
        modelled_per_s=found.modelled.rate,
        alone_per_s=None if alone is None else alone.valid_per_s,
        overhead_s=found.overhead_s,
        loaded_factor=found.loaded,
        service=bench.describe_service(found.timed),
        curve=tuple(
            CurvePoint(queries_per_s=rate * num_copies, latency_s=latency_s + found.overhead_s)
            for rate, latency_s in found.modelled.curve
        ),
        runs=found.runs,
        quality=quality,
        peak_rss_bytes=peak_rss_bytes(),
        started_utc=started.isoformat(timespec="milliseconds"),
        ended_utc=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )


def measure_beside(
    measure: Callable[[World, str, float], ProcessMeasurements | None],
    measure_overhead: Callable[[], float],
    world: World,
) -> tuple[ProcessMeasurements | None, ProcessMeasurements | None]:
    """Measure the serving of all ranks (processes) at the same time; return the measurements. If there are several
    ranks, rank 0 is measured alone first, while the others wait, and both measurements are returned."""
    overheads = world.gather(measure_overhead() if world.rank == 0 else 0.0)
    overhead_s = world.broadcast(overheads[0] if overheads else 0.0)
    alone: ProcessMeasurements | None = None
    if world.size > 1:
        failed = None
        if world.rank == 0:
            try:
                alone = measure(SingleProcess(), "alone", overhead_s)
            except HarnessError as error:
                failed = error
        failed = world.broadcast(failed)
        if failed is not None:
            raise failed
    return measure(world, "run", overhead_s), alone


class ServedKind(Kind):
    """Kind of measurement that serves a model: [serve] of the benchmark definition has the queries; workers and calls
    may be chosen by timing."""

    def check(self, workload: WorkloadConfig) -> None:
        refuse_unservable(workload)

    def with_choice(self, tables: Mapping[str, Any], choice: ChoiceRecord) -> dict[str, Any]:
        return dict(tables) if choice.service is None else with_choice(tables, choice.service)


class ServeKind(ServedKind):
    """Kind of measurement that finds the highest queries per second within a latency limit. Table [serve] defines the
    queries and the limit. Trained weights are not needed."""

    def resolve(self, benchmark: str | Path, overrides: Iterable[Override], label: str | None) -> RunConfig:
        require_loadgen()
        config = resolve_served(benchmark, overrides, label)
        serve = read_serve(config.tables)
        file = serve.query_file
        if file is not None and file.arrivals_s is not None:
            raise HarnessError(
                f"serve.queries is {serve.queries}, which has the times of queries, but LoadGen draws times itself. "
                "Give a file with items alone, or use 'dlrmbench simulate'."
            )
        return config

    def remarks(self, config: RunConfig) -> list[str]:
        emulated, serve = explain_emulation(config.workload.runtime), read_serve(config.tables)
        remarks = [] if emulated is None else [f"warning: {emulated}"]
        return [*remarks, explain_needs(serve)] if serve.mlperf else remarks

    def make_job(self, record: RunSetRecord, index: int, members: Mapping[str, Any], more: Mapping[str, Any]) -> Job:
        if record.choice is not None:
            members = {**members, "tables": self.with_choice(members["tables"], record.choice)}
        return ServeJob(**members, **more, index=index)

    def num_processes(self, config: RunConfig) -> int:
        return read_serve(config.tables).colocate

    def num_ranks(self, job: Job) -> int:
        return read_serve(job.tables).colocate

    def rank_device(self, runtime: RuntimeConfig, num_ranks: int) -> "torch.device":
        """Return the CPU as the device through which ranks exchange data. Several ranks may compute on the same
        device, and ranks exchange nothing but results."""
        import torch

        return torch.device("cpu")


def with_choice(tables: Mapping[str, Any], choice: ServiceChoice) -> dict[str, Any]:
    """Return the tables (TOML) of a benchmark definition with what timing has chosen in [serve]: the number of
    workers, the maximum number of items in a call, and the number of items from which a query is split."""
    serve = {key: value for key, value in tables.get(SERVE, {}).items() if value != "auto"}
    return {**tables, SERVE: serve | {key.removeprefix("serve."): value for key, value in choice.settings.items()}}


def resolve_served(benchmark: str | Path, overrides: Iterable[Override], label: str | None) -> RunConfig:
    """Resolve the settings of a benchmark, including [serve]. Raises DefinitionError, and ConfigError, also if the
    evaluation split is too small for the queries."""
    config = resolve(benchmark, overrides, label, derived_suffix="_serve", sections=(SERVE,))
    serve, data, model = read_serve(config.tables), config.workload.data, config.workload.model_name
    if serve.mlperf_round is not None and MODELS.get(model) != (asked := ROUNDS[serve.mlperf_round].model):
        other = f"Give --round {LAST_ROUNDS[MODELS[model]]}" if model in MODELS else "Leave --mlperf out"
        raise ConfigError(
            f"--mlperf of round {serve.mlperf_round} is for {asked}, but the model here is {model!r}. {other}."
        )
    if data.eval_samples is not None:  # a split that is too small is refused before anything is written
        try:
            library_sizes(serve, data.eval_samples, count_bytes_per_sample(data.mapped))
        except ConfigError as error:
            raise ConfigError(f"{error} {explain_needs(serve)}." if serve.mlperf else str(error)) from None
    return config


KIND = ServeKind(
    name="serve",
    job=ServeJob,
    record=ServeRecord,
    run=serve_queries,
    usual_repetitions=USUAL_PROCESSES,
    weights_key=WEIGHTS_KEY,
    sections=(SERVE,),
    takes_id_maps="made",
    option=Option(
        verbs=("sweep",),
        help="Instead of training, find the highest rate of queries that meets the latency limit, as 'serve' does, "
        "measured in 5 processes. Any configuration key may be changed.",
    ),
)
