"""Run LoadGen's accuracy mode: answer each sample of the evaluation split once; compute the quality from LoadGen's
log.

LoadGen logs each answer in mlperf_log_accuracy.json. The answer to a query has the form of MLPerf's dlrm-v2
(mlcommons/inference, recommendation/dlrm_v2, tools/accuracy-dlrm.py): for each item, a float32 pair of click
probability and label. The quality is an AUC. It is compared with the AUC of the same weights in fp32 on the same
split, and not with MLPerf's 80.31 %, which holds for MLPerf's own weights and data.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.config.catalog import WorkloadConfig
from harness.config.run_config import Override, RunConfig
from harness.extensions.serving.bench import make_workers
from harness.extensions.serving.config import ServeConfig, read_serve
from harness.extensions.serving.job import WEIGHTS_KEY, ServedKind, resolve_served
from harness.extensions.serving.loadgen import (
    ACCURACY_LOG,
    TRACE,
    basic_settings,
    require_loadgen,
    run_loadgen,
    seeds_of_process,
)
from harness.extensions.serving.worker_pool import Answer, QueryPart
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.queue_simulation import Workers
from harness.foundation.study import make_check, make_study, make_table
from harness.measure.kinds import Job, OnEvent
from reference_models.data.synthetic.config import has_signal
from reference_models.process.world import World
from rules.records.metrics import ROC_AUC
from rules.records.study import STUDY_FILE, Origin, Parameter, Scalar, Source, StudyRecord

if TYPE_CHECKING:
    from harness.extensions.serving.records import ServedQuality

TARGETS = {"99.9 %": 0.999, "99 %": 0.99}
"""Shares of the AUC in fp32 that MLPerf Inference demands in the classes dlrm-v2-99.9 and dlrm-v2-99."""
_COLUMNS: tuple[tuple[str, str | None, Origin], ...] = (
    ("Target", None, "given"),
    ("Asked for", "auc", "computed"),
    ("Found", "auc", "measured"),
    ("Met", None, "computed"),
)
_AT_ONCE = 1e6
"""Rate in queries per second of an accuracy run where serve.target_qps is not given: so high that queries queue,
since their latencies are not judged."""
Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class AccuracyJob(Job):
    """Job of one process that runs LoadGen's accuracy mode; table [serve] of the benchmark definition has the other
    settings."""

    logs: str
    """Folder to which LoadGen writes its log files."""


def write_accuracy_log(
    answer: Answer, labels: Sequence[Floats], serve: ServeConfig, workers: Workers, folder: Path
) -> Path:
    """Let LoadGen issue each query once and log the click probabilities of the answers; return the path of the log.

    `labels` are the labels of each query's items, which are logged too. `answer` is a function that gets a query or a
    part of one, and returns the logits of its items, float32 [items].
    """
    import mlperf_loadgen as loadgen

    sizes = [len(of_query) for of_query in labels]
    starts = np.concatenate(([0], np.cumsum(sizes)))
    pairs = np.stack([np.zeros(starts[-1], dtype=np.float32), np.concatenate(labels).astype(np.float32)], axis=1)
    places: dict[int, int] = {}

    def work(parts: Sequence[QueryPart]) -> None:
        logits, done = np.asarray(answer(parts), dtype=np.float32), 0
        for part in parts:
            first = starts[part.place] + part.start
            pairs[first : first + part.items, 0] = _sigmoid(logits[done : done + part.items])
            done += part.items

    def note(samples: Sequence[Any], now_s: float) -> None:
        places.update((sample.id, sample.index) for sample in samples)

    def complete(ids: Sequence[int]) -> None:
        answered = [(number, pairs[starts[places[number]] : starts[places[number] + 1]]) for number in ids]
        loadgen.QuerySamplesComplete(
            [
                loadgen.QuerySampleResponse(number, of_query.ctypes.data, of_query.nbytes)
                for number, of_query in answered
            ]
        )

    settings = basic_settings(serve.scenario, seeds_of_process(0, serve.mlperf_round))
    settings.mode = loadgen.TestMode.AccuracyOnly
    settings.server_target_qps = settings.offline_expected_qps = serve.target_qps or _AT_ONCE
    run_loadgen(work, sizes, workers, settings, folder, note, complete)
    (folder / TRACE).unlink(missing_ok=True)
    return folder / ACCURACY_LOG


def _sigmoid(logits: Floats) -> Floats:
    return np.asarray(np.exp(-np.logaddexp(0.0, -logits.astype(np.float64))), dtype=np.float32)


def read_accuracy_log(path: Path) -> tuple[Floats, Floats, int]:
    """Read LoadGen's accuracy log. Return the click probabilities [N] and labels [N] of all items, and the number of
    queries. A query that was logged several times counts once.

    Raises HarnessError (exit 7) if there is no complete log.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        data = {int(entry["qsl_idx"]): bytes.fromhex(entry["data"]) for entry in reversed(entries)}
        pairs = np.frombuffer(b"".join(data.values()), dtype=np.float32).reshape(-1, 2)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HarnessError(f"{path}: no accuracy log of LoadGen ({error}).", ExitCode.INCONCLUSIVE) from None
    return pairs[:, 0], pairs[:, 1], len(data)


def measure_accuracy(job: AccuracyJob, world: World, on_event: OnEvent) -> StudyRecord:
    """Build the served model, let LoadGen ask for every sample of the evaluation split, and compare two values of the
    AUC: from LoadGen's log, and of the same weights in fp32.

    Raises HarnessError, ConfigError.
    """
    from harness.extensions.serving.model import build_served
    from reference_models.training.metrics import roc_auc

    benchmark, config = job.parse()
    serve = read_serve(benchmark.sections)
    served, quality = build_served(job, benchmark, config, serve, with_quality=True, has_whole_split=True)
    assert quality is not None, "weights are not random, and labels carry a signal"
    labels = [query.labels.numpy() for query in served.pool]
    workers = make_workers(serve)
    path = write_accuracy_log(served.answer, labels, serve, workers, Path(job.logs))
    probabilities, logged, num_queries = read_accuracy_log(path)
    auc, reference = roc_auc(logged, probabilities), _reference(quality)
    rows = [(name, share * reference, auc, auc >= share * reference) for name, share in TARGETS.items()]
    met = [name for name, _, _, is_met in rows if is_met]
    return make_study(
        "accuracy",
        f"{benchmark.name} in LoadGen's accuracy log: AUC {auc:.5f}, {auc / reference:.5f} of that in fp32",
        benchmark,
        seed=job.seed,
        parameters=_list_parameters(serve, config, reference),
        tables=(make_table("Targets", _COLUMNS, rows),),
        findings=(
            f"AUC {auc:.6f} in {path.name}, {auc / reference:.6f} of the same weights' {reference:.6f} in fp32: "
            + (f"meets {' and '.join(met)} of that." if met else "below 99 % of that."),
            f"The reference is not MLPerf's: {benchmark.name} has its own data and weights.",
        ),
        checks=(
            make_check("queries in the log", expected=len(labels), found=num_queries),
            make_check("samples in the log", expected=sum(map(len, labels)), found=len(logged)),
            make_check(
                "clicks in the log", expected=float(np.sum(np.concatenate(labels))), found=float(logged.sum())
            ),
        ),
    )


def _reference(quality: "ServedQuality") -> float:
    """Return the AUC that the served model's weights have in fp32, evaluated without LoadGen."""
    assert quality.auc is not None and quality.auc_ratio is not None, "the metric is AUC"
    return quality.auc / quality.auc_ratio


def _list_parameters(serve: ServeConfig, config: WorkloadConfig, reference: float) -> tuple[Parameter, ...]:
    rows: tuple[tuple[str, Scalar, str | None, Source, str | None], ...] = (
        ("reference AUC", reference, "auc", "measured", "of the same weights in fp32, on the same split"),
        ("scenario", serve.scenario, None, "given", "of LoadGen"),
        ("queries", serve.queries_label, None, "given", "items of each; the last takes what is left of the split"),
        ("precision", config.runtime.precision, None, "given", "of matrix products"),
        ("table precision", config.runtime.table_precision, None, "given", "of embedding rows"),
        ("weights", "kept" if serve.weights else "trained", None, "given", None),
    )
    return tuple(
        Parameter(name=name, value=value, unit=unit, source=source, note=note)
        for name, value, unit, source, note in rows
    )


class AccuracyKind(ServedKind):
    """Kind of measurement that judges the AUC of a served model in LoadGen's accuracy mode, in one process."""

    def resolve(self, benchmark: str | Path, overrides: Iterable[Override], label: str | None) -> RunConfig:
        require_loadgen()
        config = resolve_served(benchmark, overrides, label)
        serve = read_serve(config.tables)
        if serve.weights is None and serve.train_samples is None:
            raise HarnessError(
                "--mode accuracy measures the quality of trained weights, and these are random. Give --weights SET "
                "of a 'run --keep-weights', or --train SAMPLES."
            )
        if config.benchmark.quality.metric != ROC_AUC:
            raise HarnessError(
                f"--mode accuracy judges an AUC; {config.benchmark.name} has another metric. Leave --mode out: "
                "'serve' measures its quality."
            )
        if config.workload.data.has_soft_labels:
            raise HarnessError(
                "--mode accuracy: MLPerf's accuracy log of DLRM holds clicks, 0 or 1, and "
                f"{config.benchmark.name} has soft labels. Leave --mode out: 'serve' measures their quality."
            )
        if not has_signal(config.workload.data):
            raise HarnessError(
                "--mode accuracy: labels of synthetic data are random, so that no quality can be measured. Give a "
                "benchmark with real data."
            )
        return config


KIND = AccuracyKind(
    name="accuracy",
    job=AccuracyJob,
    record=StudyRecord,
    run=measure_accuracy,
    file=STUDY_FILE,
    takes_id_maps="made",
    weights_key=WEIGHTS_KEY,
)
