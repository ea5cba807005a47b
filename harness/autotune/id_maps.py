"""Make the map of ids to embedding rows that a benchmark definition's section [id_map] asks for. The map is made
before the first run, outside all measured time.

A job in a fresh process makes the map. The map stays in `<dataset>/id_maps/`, where other run sets of the same
definition find it; the run set's `run_set.json` records the map's digest. Equal torch versions and processors make
equal maps.
"""

from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from harness.config.catalog import WorkloadConfig
from harness.config.run_config import RunConfig
from harness.config.synthetic import hold_in_memory
from harness.foundation.errors import HarnessError
from harness.foundation.files import read_record
from harness.foundation.kept_arrays import write_kept
from harness.foundation.status_line import StatusLine
from harness.launch.deadline import AT_ONCE
from harness.launch.process import explain_end, launch_worker
from harness.measure.id_maps import locate_id_map, read_id_maps
from harness.measure.job import write_job
from harness.measure.kinds import Job, Kind, OnEvent
from harness.measure.throughput import train_steps
from harness.run_sets.dataset import kept_lock
from reference_models.config.id_map import IdMapConfig
from reference_models.config.sections import RuntimeConfig
from reference_models.data.click_log.teacher import build_teacher
from reference_models.data.id_maps import maps
from reference_models.data.registry import open_dataset
from reference_models.process.world import SingleProcess, World
from reference_models.registry import find_model
from reference_models.serving.servable import workload_weights
from rules.records.codec import Damage, decode
from rules.records.kept.arrays import MANIFEST_FILE
from rules.records.kept.id_maps import IdMapManifest
from rules.temporary_folder import temporary_folder

_READ_SAMPLES = 1 << 14
_LEARNER = {"interaction": "dot", "embedding_dim": 4, "bottom_mlp": [16, 4], "top_mlp": [32, 1]}
"""Settings of [model] for the small DLRM that is trained for id maps of kind `learned`, whatever model the definition
has. Ids that occur with similar ids get similar embeddings; the embeddings are clustered to make the map of ids to
rows."""


def ensure_id_map(config: RunConfig, data_dir: Path, *, quiet: bool = False) -> str | None:
    """Return the digest of the configuration's map of ids to embedding rows; None if the definition has no section
    [id_map]. The map is read from the dataset's folder. If the map is missing there, it is made.

    Raises HarnessError (exit 8) if the map in the folder is damaged, or if a missing map cannot be made.
    """
    if (place := locate_id_map(config.workload, data_dir)) is None:
        return None
    root, line, doing = place.folder.parent, StatusLine(quiet=quiet), "found in"
    if not place.folder.exists():  # looked at first, as one that is there may be where nobody can write
        with kept_lock(root, data_dir):
            if not place.folder.exists():
                line.show(f"making the id map ({config.workload.data.id_map.kind}), once for this dataset", now=True)
                _make_apart(config, data_dir)
                doing = "made now, kept in"
    read = read_id_maps(config.workload, data_dir)
    assert read is not None, "there is a place for it"
    line.finish(f"ids mapped to rows by {read.sha256[:12]}, {doing} {place.folder}")
    return read.sha256


def _make_apart(config: RunConfig, data_dir: Path) -> None:
    tables, path = dict(config.tables), str(config.benchmark.path)
    with temporary_folder("id-map") as folder:
        job = Job(tables=tables, definition_path=path, data_dir=str(data_dir), seed=0, folder=str(folder))
        end = launch_worker(write_job(KIND, job), num_threads=1, timeout_s=AT_ONCE)
        if isinstance(decode(folder / KIND.file, IdMapManifest), Damage):
            words, code = explain_end(end)
            raise HarnessError(f"the id map could not be made: {words}", code)


def make_id_map(job: Job, world: World, on_event: OnEvent) -> IdMapManifest:
    """Make the map of ids to embedding rows and write its folder, while the parent process holds the folder's lock.

    Raises OSError where the folder cannot be written.
    """
    started_s, data_dir = perf_counter(), Path(job.data_dir)
    config = job.parse()[1]
    kind, samples, place = config.data.id_map.kind, config.data.id_map.samples, locate_id_map(config, data_dir)
    assert place is not None, "the parent has looked"
    config = hold_in_memory(config, -(-samples // config.train.global_batch_size))
    plain = replace(config, data=replace(config.data, id_map=IdMapConfig()))
    opened = open_dataset(data_dir, plain.data)
    num_samples = min(samples, opened.train.num_samples) if kind in ("frequency", "learned") else 0
    counts = _count_ids(plain, data_dir, num_samples)
    embeddings = _learn_embeddings(plain, data_dir, num_samples) if kind == "learned" else []
    teacher = build_teacher(plain.data) if kind == "classes" else None
    arrays = {}
    for table, (ids, rows, _) in place.sizes.items():
        if teacher is not None:
            made = maps.map_by_class(teacher.sparse[table].latent_class, rows)
        elif kind == "learned":
            made = maps.map_by_embedding(counts[table], embeddings[table], rows, seed=table)
        elif kind == "frequency":
            made = maps.map_by_frequency(counts[table], rows)
        else:
            made = maps.map_by_hash(ids, rows) if kind == "hash" else maps.map_by_quotient(ids, rows)
        arrays[f"table_{table}"] = made
    about = {
        "id_map_kind": kind,
        "budget": config.data.id_map.budget,
        "samples": num_samples,
        "dataset_sha256": opened.dataset_sha256,
        "made_s": perf_counter() - started_s,
    }
    write_kept(place.folder, arrays, IdMapManifest, about, "tables")
    return read_record(place.folder / MANIFEST_FILE, IdMapManifest)


def _count_ids(plain: WorkloadConfig, data_dir: Path, num_samples: int) -> list[NDArray[np.int64]]:
    """Return how often each id of each table is in the first samples of the training split: int64 [ids] for each
    table."""
    split = open_dataset(data_dir, plain.data).train
    counts = [np.zeros(num_ids, np.int64) for num_ids in split.num_embeddings]
    for start in range(0, num_samples, _READ_SAMPLES):
        batch = split.read(start, min(start + _READ_SAMPLES, num_samples))
        batch.check(split, f"{data_dir}: train sample", start)
        for table, ids in enumerate(np.split(batch.ids.numpy(), np.cumsum(split.multi_hot)[:-1], axis=1)):
            counts[table] += np.bincount(ids.reshape(-1), minlength=len(counts[table]))
    return counts


def _learn_embeddings(plain: WorkloadConfig, data_dir: Path, num_samples: int) -> list[NDArray[np.float32]]:
    """Train the small DLRM of `_LEARNER` on the first `num_samples` samples for one epoch, with the definition's
    [train]; return its embedding tables, float32 [ids, 4] each."""
    model, runtime = find_model("dlrm"), RuntimeConfig(threads=1)
    learner = replace(plain, model_name="dlrm", model=model.parse(_LEARNER), runtime=runtime)
    workload = learner.implementation.load(learner.spec(data_dir, seed=0), SingleProcess())
    workload.build()
    train_steps(workload.train, max(1, num_samples // workload.global_batch_size))
    weights = workload_weights(workload)
    return [weights[f"embedding_bags.{table}.weight"].detach().numpy() for table in range(plain.data.num_sparse)]


KIND = Kind(name="id_map", job=Job, record=IdMapManifest, run=make_id_map)
