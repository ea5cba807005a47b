"""[id_map] of a definition: made once beside the data, found by its digest, and refused where it has no place."""

import json
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command import Command
from inside import use_workers_inside
from made_sets import made_in
from mapped_set import ALONE, MAPPED, dataset_in, make_data, train_mapped, write_mapped
from small_set import write_definition

from harness.autotune.choices import find_candidates
from harness.autotune.id_maps import ensure_id_map
from harness.config.catalog import load_entry
from harness.config.run_config import Override, RunConfig, resolve
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.kept_arrays import write_kept
from harness.measure.id_maps import locate_id_map, read_id_maps
from reference_models.data.click_log.teacher import build_teacher
from reference_models.data.id_maps.maps import map_by_class, map_by_frequency, map_by_hash
from reference_models.data.registry import open_dataset
from rules.benchmarks.loader import load_benchmark
from rules.errors import DefinitionError
from rules.records.codec import decode
from rules.records.kept.id_maps import IdMapManifest
from rules.records.measured.quality import QualityRecord
from rules.records.run_set import RunSetRecord

pytestmark = pytest.mark.numeric

ROWS = (100, 50, 200, 100, 100, 3, 50, 20)
"""Rows of all of its tables at a budget of a tenth."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of those definitions; maps beside it are not to be changed."""
    return make_data(tmp_path_factory.mktemp("mapped"))


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., RunConfig]:
    def make(kind: str, **values: object) -> RunConfig:
        return resolve(write_mapped(tmp_path / "mine.toml", kind=kind, budget=0.1, **values), [])

    return make


def test_a_map_is_made_once_and_has_the_rows_of_its_oracle(
    config: Callable[..., RunConfig], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_workers_inside(monkeypatch)
    folder, plain = dataset_in(root), load_entry("dlrm_tiny").workload.data
    made = config("hash")
    opened = open_dataset(folder, config("none").workload.data)
    ids = opened.train.read(0, 5000).indices.numpy()
    counts = {table: np.bincount(ids[:, table], minlength=num) for table, num in MAPPED.items()}
    teacher = build_teacher(config("none").workload.data)
    oracles = {
        "hash": lambda table, num: map_by_hash(num, num // 10),
        "frequency": lambda table, num: map_by_frequency(counts[table], num // 10),
        "classes": lambda table, num: map_by_class(teacher.sparse[table].latent_class, num // 10),
    }
    for kind, oracle in oracles.items():
        made = config(kind, samples=5000)
        digest = ensure_id_map(made, folder, quiet=True)
        place = locate_id_map(made.workload, folder)
        assert place is not None
        read = read_id_maps(made.workload, folder, digest)
        assert read is not None and {table: len(rows) for table, rows in read.tables.items()} == MAPPED
        for table, rows in read.tables.items():
            assert np.array_equal(rows, oracle(table, MAPPED[table])), (kind, table)
        before = (place.folder / "manifest.json").stat()
        assert ensure_id_map(made, folder, quiet=True) == digest
        assert (place.folder / "manifest.json").stat().st_mtime_ns == before.st_mtime_ns
        manifest = decode(place.folder / "manifest.json", IdMapManifest)
        assert isinstance(manifest, IdMapManifest) and manifest.sha256 == digest
        assert manifest.samples == (5000 if kind == "frequency" else 0)
        assert made.workload.data.mapped.num_embeddings == ROWS
    assert plain.num_embeddings == (1000, 500, 200, 100, 1000, 3, 50, 20)


@pytest.mark.slow
def test_a_learned_map_is_the_same_when_it_is_made_again(
    config: Callable[..., RunConfig], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_workers_inside(monkeypatch)
    made = config("learned", samples=8192)
    digests = []
    for name in ("once", "again"):
        folder = tmp_path / name
        shutil.copytree(dataset_in(root), folder, ignore=shutil.ignore_patterns("id_maps"))
        digests.append(ensure_id_map(made, folder, quiet=True))
    assert digests[0] == digests[1] is not None
    learned = read_id_maps(made.workload, folder)
    frequency = config("frequency", samples=8192)
    ensure_id_map(frequency, folder, quiet=True)
    hashed = read_id_maps(frequency.workload, folder)
    assert learned is not None and hashed is not None
    assert np.array_equal(learned.tables[0] < 50, hashed.tables[0] < 50)  # the hottest are the same
    assert not np.array_equal(learned.tables[0], hashed.tables[0])


def test_nothing_is_made_where_no_table_loses_a_row(config: Callable[..., RunConfig], tmp_path: Path) -> None:
    whole = resolve(write_mapped(tmp_path / "mine.toml", kind="hash", budget=1.0), [])
    for each in (config("none"), whole):
        assert ensure_id_map(each, tmp_path / "nowhere", quiet=True) is None


def test_none_is_the_problem_without_a_section_and_another_kind_is_not(tmp_path: Path) -> None:
    digests = {load_benchmark(write_definition(tmp_path / "mine.toml")).definition_sha256}
    digests |= {load_benchmark(write_mapped(tmp_path / "mine.toml", kind="none", budget=0.3)).definition_sha256}
    assert len(digests) == 1
    for kind, budget in (("hash", 0.3), ("hash", 0.2), ("learned", 0.3)):
        digests |= {load_benchmark(write_mapped(tmp_path / "mine.toml", kind=kind, budget=budget)).definition_sha256}
    assert len(digests) == 4


def test_maps_of_one_budget_share_how_their_steps_are_computed(config: Callable[..., RunConfig], root: Path) -> None:
    keys = {}
    for kind in ("none", "hash", "learned", "quotient_remainder"):
        made = resolve(config(kind).benchmark.path, [Override(key="runtime.precision", value="bf16", source="test")])
        candidates = find_candidates(made, dataset_in(root))
        assert candidates is not None
        keys[kind] = candidates.key
    assert keys["hash"] == keys["learned"] and len({*keys.values()}) == 3


def replace_map(folder: Path) -> None:
    """Another map, whole and of the right shapes, in a map's place."""
    manifest = json.loads((folder / "manifest.json").read_text())
    arrays = {f"table_{table}": np.zeros((num, 1), np.int32) for table, num in MAPPED.items()}
    write_kept(folder, arrays, IdMapManifest, {**manifest, "tables": None}, "tables")


def change_file(folder: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    (folder / name).write_bytes(change((folder / name).read_bytes()))


def lead_outside(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    arrays = {f"table_{table}": np.zeros((num, 1), np.int32) for table, num in MAPPED.items()}
    arrays["table_1"][7] = 50
    write_kept(folder, arrays, IdMapManifest, {**manifest, "tables": None}, "tables")


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "bit": (lambda f: change_file(f, "table_0.npy", lambda data: data[:-1] + b"\x01"), "table_0.npy"),
    "short": (lambda f: change_file(f, "table_4.npy", lambda data: data[:-4]), "table_4.npy"),
    "no file": (lambda f: (f / "table_1.npy").unlink(), "table_1.npy"),
    "no JSON": (lambda f: change_file(f, "manifest.json", lambda data: data[:40]), "manifest.json"),
    "outside": (lead_outside, "table_1.npy: id 7 has a row outside of its table, which has 50"),
    "foreign": (
        lambda f: change_file(f, "manifest.json", lambda data: data.replace(b"table_4", b"table_5")),
        "another id map",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_map_names_its_file(
    name: str, config: Callable[..., RunConfig], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_workers_inside(monkeypatch)
    made, folder = config("hash"), tmp_path / "data"
    shutil.copytree(dataset_in(root), folder)
    ensure_id_map(made, folder, quiet=True)
    damage, place = DAMAGES[name]
    (kept,) = (folder / "id_maps").glob("hash-*")
    damage(kept)
    with pytest.raises(HarnessError) as caught:
        ensure_id_map(made, folder, quiet=True)
    assert caught.value.exit_code == ExitCode.INPUT and place in str(caught.value)


@pytest.fixture(scope="module")
def trained(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_mapped(root, tmp_path_factory.mktemp("trained"))


@pytest.mark.slow
def test_a_run_through_a_map_is_on_record(trained: Path) -> None:
    (made,) = made_in(trained / "out")
    record = decode(made / "extra/run_set.json", RunSetRecord)
    weights = json.loads((made / "extra/run_0/weights/manifest.json").read_text())
    (kept,) = (dataset_in(trained / "data") / "id_maps").glob("quotient_remainder-*")
    manifest = decode(kept / "manifest.json", IdMapManifest)
    assert isinstance(record, RunSetRecord) and isinstance(manifest, IdMapManifest)
    assert record.id_map_sha256 == weights["id_map_sha256"] == manifest.sha256
    assert record.config["id_map.kind"].value == "quotient_remainder"
    shapes = {name: tensor["shape"] for name, tensor in weights["tensors"].items()}
    assert [shapes[f"embedding_bags.{table}.weight"][0] for table in range(8)] == [*ROWS]


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_further_runs_take_the_map_that_their_set_began_with(trained: Path, inside: Command, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path, symlinks=True, dirs_exist_ok=True)
    (made,) = made_in(tmp_path / "out")
    path = made / "extra/run_set.json"
    record = json.loads(path.read_text())
    record["dataset"]["dir"] = str(dataset_in(tmp_path / "data"))
    path.write_text(json.dumps(record))
    (kept,) = (dataset_in(tmp_path / "data") / "id_maps").glob("quotient_remainder-*")
    kept.rename(tmp_path / "elsewhere")
    done = inside("resume", made, "-n", 2, "-q")
    assert done.returncode == ExitCode.INPUT and "manifest.json" in done.stderr, done.stderr
    (tmp_path / "elsewhere").rename(kept)
    done = inside("resume", made, "-n", 2, "-q")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_costs_are_of_the_rows_that_are_left(root: Path, inside: Command, tmp_path: Path) -> None:
    write_mapped(tmp_path / "mine.toml", kind="quotient_remainder", budget=0.1)
    done = inside("run", "./mine.toml", "--quality", 2048, "-n", 5, "--data", root, *ALONE)
    assert done.returncode == 0, done.stderr
    (made,) = made_in(tmp_path / "out")
    computed = json.loads((made / "extra/quality.json").read_text())["computed"]
    assert (computed["embedding_bytes"], computed["num_lookups_per_sample"]) == (623 * 16 * 4, 8 + 3)


REFUSALS: dict[str, tuple[tuple[str, ...], str]] = {
    "to a target": (("run", "./mine.toml", "--set", "id_map.kind=learned", "--name", "m"), "--quality SAMPLES, 's"),
    "throughput": (
        ("run", "./mine.toml", "--throughput", "4", "--set", "id_map.kind=frequency"),
        "outside the timed region",
    ),
    "control": (
        ("run", "./mine.toml", "--throughput", "4", "--set", "id_map.kind=classes"),
        "a control that knows more",
    ),
    "official": (("run", "dlrm_dcnv2", "--set", "id_map.kind=hash", "--name", "m"), "in an official benchmark"),
    "official quality": (("run", "dlrm", "--quality", "64", "--set", "id_map.kind=none"), "an official benchmark"),
    "sequences": (("run", "dlrmv4_small", "--quality", "64", "--set", "id_map.kind=hash"), "pools no bags"),
    "no tables": (("run", "d2nn_small", "--quality", "64", "--set", "id_map.kind=hash"), "has no embedding tables"),
    "classes of nothing": (
        ("run", "rm1_deeprecsys", "--throughput", "4", "--set", "id_map.kind=classes"),
        "which data.kind 'click_log' alone has",
    ),
    "no number": (("run", "./mine.toml", "--quality", "64", "--set", "id_map.budget=0"), "above 0, at most 1"),
    "no row": (
        ("run", "./mine.toml", "--quality", "64", "--set", "id_map.kind=hash", "--set", "id_map.budget=0.001"),
        "leaves 0 of the 500 rows of table 1",
    ),
    "fixed": (("run", "./mine.toml", "--set", "id_map.kind=hash"), "id_map.kind is fixed by the definition"),
    "axis": (("sweep", "./mine.toml", "--axis", "id_map.kind=none,hash"), "changes the problem"),
    "unknown": (("run", "./mine.toml", "--quality", "64", "--set", "id_map.size=3"), "unknown key 'id_map.size'"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_has_no_place_is_refused_before_anything_is_written(name: str, inside: Command, tmp_path: Path) -> None:
    write_definition(tmp_path / "mine.toml")
    words, said = REFUSALS[name]
    done = inside(*words, "-o", "out")
    assert done.returncode == ExitCode.USAGE and said in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "out").exists() and not (tmp_path / "data").exists()


@pytest.mark.slow
def test_a_full_disk_leaves_no_half_of_a_map(root: Path, dlrmbench: Command, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6 << 10, 6 << 10))  # table 0 takes 8,000 bytes

    shutil.copytree(root, tmp_path / "data", ignore=shutil.ignore_patterns("id_maps"))
    write_mapped(tmp_path / "mine.toml", kind="quotient_remainder")
    done = dlrmbench("run", "./mine.toml", "-n", 1, "--data", "data", *ALONE, preexec_fn=limit)
    assert done.returncode == ExitCode.RESOURCES and "the id map could not be made" in done.stderr, done.stderr
    assert not [path for path in (dataset_in(tmp_path / "data") / "id_maps").iterdir() if path.name != ".lock"]
    assert not (tmp_path / "out").exists()


def test_an_official_definition_of_a_users_has_no_map_either(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    write_mapped(path, kind="hash")
    path.write_text(path.read_text().replace('status = "own"', 'status = "official"'))
    with pytest.raises(DefinitionError, match=r"\[id_map\] in an official benchmark, mine"):
        load_benchmark(path)


@pytest.mark.long
def test_learned_maps_close_a_third_of_the_gap_between_hashing_and_the_classes(
    dlrmbench: Command, tmp_path: Path
) -> None:
    axis = ("--axis", "id_map.kind=hash,frequency,learned,classes")
    words = ("--quality", 200_000, "-n", 5, *axis, "--threads", 1, "--seed", 1, "-q", "-o", "out", "--format", "json")
    done = dlrmbench("sweep", "click_log_twins", *words)
    assert done.returncode == 0, done.stderr
    (made,) = made_in(tmp_path / "out")
    kinds = ("hash", "frequency", "learned", "classes")
    files = dict(zip(kinds, sorted(made.glob("0*/extra/quality.json")), strict=True))
    means = {}
    for kind, path in files.items():
        record = decode(path, QualityRecord)
        assert isinstance(record, QualityRecord)
        means[kind] = np.mean([process.evaluations[-1].auc for process in record.processes])
    assert means["classes"] - means["hash"] >= 0.01
    assert means["learned"] - means["hash"] >= (means["classes"] - means["hash"]) / 3
    for base, new in ((1, 3), (2, 3)):
        sides = [next(made.glob(f"0{place}-*")) for place in (base, new)]
        done = dlrmbench("compare", *sides)
        assert done.returncode == 0 and done.stdout.startswith("BETTER"), done.stdout
