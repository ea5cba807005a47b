"""Checkpoints on disk: whole or not there, as large as their closed form, served, and what commands say of them."""

import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpointing import ABOUT, DIGEST, begin
from command import Command
from inside import run_inside, use_workers_inside
from made_sets import made_in
from toy_clicks import BATCH, MULTI_HOT, NUM_EMBEDDINGS, spec_maker, write_dataset
from waiting import HANG_S

from harness.config.catalog import load_entry
from harness.config.run_config import Override, resolve
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.checkpoints import CheckpointFolder, read_checkpoint
from harness.measure.kinds import find_kind
from harness.measure.training import TrainingKind
from harness.run_sets.dataset import ensure_dataset
from harness.run_sets.names import find_weights
from reference_models.process.artifact import npy_header
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess
from reference_models.training.checkpoints import TouchedRows, is_base_due, list_state
from rules.records.codec import decode
from rules.records.kept.checkpoint import CheckpointManifest
from rules.records.run import RunRecord

BUILDERS = Path(__file__).parents[1] / "builders"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    write_dataset(folder)
    return folder


def store_in(folder: Path, **about: Any) -> CheckpointFolder:
    folder.mkdir(exist_ok=True)
    return CheckpointFolder(root=folder, about={**ABOUT, **about})


def state_of(loop: Any) -> dict[str, torch.Tensor]:
    tables, others = list_state(loop)
    found = {**{f"model.{name}": table for name, table in tables.items()}, **others}
    return {name: tensor.clone() for name, tensor in found.items()}


def is_equal(restored: Any, expected: Any) -> bool:
    return restored.keys() == expected.keys() and all(
        torch.equal(restored[name], expected[name]) for name in expected
    )


def file_bytes(dtype: str, *shape: int) -> int:
    return len(npy_header(dtype, shape)) + int(np.prod(shape)) * np.dtype(dtype).itemsize if np.prod(shape) else 0


@pytest.mark.parametrize("policy", ["full", "one_shot", "consecutive", "intermittent"])
@pytest.mark.parametrize(("bits", "row_bytes"), [(32, 16), (8, 4 + 8), (4, 2 + 4), (2, 1 + 4)])
def test_bytes_are_those_of_the_closed_form(
    policy: str, bits: int, row_bytes: int, toy: Path, tmp_path: Path
) -> None:
    """Of the ids alone: rows that changed, their sums of squares, a bitmap or ids, and all dense state."""
    store = store_in(tmp_path / "c", bits=bits, policy=policy)
    loop, made = begin(spec_maker(toy)(), store, bits=bits, policy=policy)
    ids = [loop.data.train.read(at * BATCH, (at + 1) * BATCH).indices for at in range(6)]
    loop.train(6)
    made.finish()
    _, others = list_state(loop)
    tables = {f"state.embedding_bags.{table}.weight.sum" for table in range(3)}
    dense = sum(
        file_bytes(str(value.numpy().dtype), *value.shape) for name, value in others.items() if name not in tables
    )
    touched, shares, sizes, chain = TouchedRows(NUM_EMBEDDINGS, MULTI_HOT), [], [], []
    for index, each in enumerate(ids):
        touched.mark(each)
        is_base = index == 0 or is_base_due(policy, shares)
        changed = list(NUM_EMBEDDINGS) if is_base else [len(rows) for rows in touched.list_rows()]
        shares = [] if is_base else [*shares, sum(changed) / sum(NUM_EMBEDDINGS)]
        embeddings = total = 0
        for rows, num_rows in zip(changed, NUM_EMBEDDINGS, strict=True):
            codes = ("float32", 4) if bits == 32 else ("uint8", row_bytes)
            embeddings += file_bytes(codes[0], rows, codes[1])
            if not is_base and rows:
                is_bitmap = -(-num_rows // 8) <= 4 * rows
                embeddings += file_bytes("uint8", -(-num_rows // 8)) if is_bitmap else file_bytes("int32", rows)
            total += file_bytes("float32", rows, 4)
        if is_base or policy == "consecutive":
            touched.is_touched[:] = False
        chain = [] if is_base else chain if policy == "consecutive" else chain[:1]
        chain = [*chain, index]
        sizes.append(embeddings + total + dense)
        found = made.taken[index]
        on_disk = sum(path.stat().st_size for path in (tmp_path / "c" / str(index)).glob("*.npy"))
        assert found["embedding_bytes"] == embeddings and found["num_bytes"] == on_disk == sizes[-1]
        assert found["restore_bytes"] == sum(sizes[part] for part in chain)
        manifest = decode(tmp_path / "c" / str(index) / "manifest.json", CheckpointManifest)
        assert isinstance(manifest, CheckpointManifest) and manifest.chain == tuple(chain)
    full = sum(file_bytes("float32", rows, 4) for rows in NUM_EMBEDDINGS)
    assert (made.full_embedding_bytes, made.full_bytes) == (full, 2 * full + dense)


@pytest.mark.parametrize("num_killed", [3, pytest.param(50, marks=pytest.mark.long)])
def test_after_a_kill_the_newest_whole_checkpoint_restores(num_killed: int, tmp_path: Path) -> None:
    """Whenever that is: what was being written is a draft, which nobody takes for a checkpoint."""
    script = [sys.executable, str(BUILDERS / "checkpointing.py"), str(tmp_path), str(num_killed)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    loop, _ = begin(spec_maker(tmp_path / "data")(), store_in(tmp_path / "unused"), steps=50)
    states = []
    for _ in range(50):
        loop.train(1)
        states.append(state_of(loop))
    num_restored = 0
    for number in range(num_killed):
        whole = sorted(int(path.name) for path in (tmp_path / str(number)).iterdir() if path.name.isdigit())
        assert whole == list(range(len(whole)))
        for index in whole[-2:]:
            assert is_equal(read_checkpoint(tmp_path / str(number) / str(index), DIGEST), states[index])
            num_restored += 1
    assert num_restored or num_killed < 50, "no child lived long enough to make one"


@pytest.fixture(scope="module")
def chain(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base and an increment."""
    root = tmp_path_factory.mktemp("chain") / "checkpoints"
    loop, made = begin(spec_maker(toy)(), store_in(root, bits=8), bits=8)
    loop.train(2)
    made.finish()
    assert made.error is None
    return root


def truncate(root: Path) -> None:
    path = root / "0" / "codes.embedding_bags.0.weight.npy"
    path.write_bytes(path.read_bytes()[:-1])


def flip(root: Path) -> None:
    path = root / "0" / "codes.embedding_bags.0.weight.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def change(place: str, **members: Any) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        path = root / place / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **members}))

    return write


@pytest.mark.parametrize(
    ("damage", "code", "words"),
    [
        (lambda root: shutil.rmtree(root / "0"), ExitCode.INPUT, "0/manifest.json"),
        (truncate, ExitCode.INPUT, "0/codes.embedding_bags.0.weight.npy"),
        (flip, ExitCode.INPUT, "0/codes.embedding_bags.0.weight.npy: found sha256"),
        (change("0", seed=2), ExitCode.INPUT, "0: not what"),
        (change("1", chain=[1]), ExitCode.INPUT, "rows that the checkpoint before it does not have"),
        (change("1", chain=[1, 0]), ExitCode.INPUT, "not what"),
        (change("1", chain=[]), ExitCode.INPUT, "chain"),
        (change("1", bits=3), ExitCode.INPUT, "bits"),
        (change("1", bits=4), ExitCode.INPUT, "0: not what"),
        (change("1", definition_sha256="e" * 64), ExitCode.USAGE, "another definition"),
    ],
)  # fmt: skip
def test_what_is_damaged_or_does_not_belong_together_is_refused(
    damage: Callable[[Path], None], code: ExitCode, words: str, chain: Path, tmp_path: Path
) -> None:
    root = tmp_path / "checkpoints"
    shutil.copytree(chain, root)
    assert read_checkpoint(root / "1", DIGEST)["model.embedding_bags.0.weight"].shape == (40, 4)
    damage(root)
    with pytest.raises(HarnessError) as caught:
        read_checkpoint(root / "1", DIGEST)
    assert caught.value.exit_code == code and words in str(caught.value)


def asked(**values: Any) -> list[Override]:
    return [Override(key=f"checkpoint.{key}", value=value, source="--set") for key, value in values.items()]


@pytest.mark.parametrize(
    ("kind", "benchmark", "values", "words"),
    [
        ("training", "dlrm_tiny", {"restores": 2}, "checkpoint.restores is for --quality"),
        ("throughput", "dlrm_tiny", {"restores": 2}, "checkpoint.restores is for --quality"),
        ("quality", "dlrmv4_small", {"every": "5%"}, "hstu looks up the events of a sequence one by one"),
        ("quality", "d2nn_small", {"every": "5%"}, "d2nn has no embedding tables"),
        ("profile", "dlrm_tiny", {"every": "5%"}, "is for what trains"),
        ("serve", "dlrm_tiny", {"every": "5%"}, "is for what trains"),
        ("quality", "dlrm_tiny", {"every": "5"}, "checkpoint.every is '5', expected a number of samples"),
    ],
)  # fmt: skip
def test_what_has_no_checkpoints_refuses_them(kind: str, benchmark: str, values: Any, words: str) -> None:
    found = find_kind(kind)
    with pytest.raises(ConfigError, match=words) as caught:
        found.check(found.resolve(benchmark, asked(**values), None).workload)
    assert "checkpoint" in str(caught.value)


def test_implementations_of_several_ranks_refuse_them() -> None:
    pytest.importorskip("torchrec")
    torchrec = Override(key="runtime.implementation", value="torchrec", source="--set")
    kind = find_kind("throughput")
    with pytest.raises(ConfigError, match="'torchrec' lays rows of tables over ranks"):
        kind.check(kind.resolve("dlrm_tiny", [torchrec, *asked(every="5%")], None).workload)


def test_they_are_no_part_of_the_problem_and_all_on_record() -> None:
    plain, checkpointed = resolve("dlrm_tiny", ()), resolve("dlrm_tiny", asked(bits=4))
    assert plain.benchmark.definition_sha256 == checkpointed.benchmark.definition_sha256
    values = {key: given["value"] for key, given in checkpointed.values().items() if key.startswith("checkpoint.")}
    assert values == {
        "checkpoint.every": "5%", "checkpoint.policy": "intermittent", "checkpoint.bits": 4,
        "checkpoint.rounding": "plain", "checkpoint.restores": 0,
    }  # fmt: skip
    assert not any(key.startswith("checkpoint.") for key in plain.values())
    assert TrainingKind.takes  # a run to the target may vary them
    never = resolve("dlrm_tiny", asked(every="never"))
    assert never.workload.checkpoint is None and never.values()["checkpoint.every"]["value"] == "never"


@pytest.fixture(scope="module")
def run_folder(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of dlrm_tiny with checkpoints; not to be changed."""
    output = tmp_path_factory.mktemp("run")
    words = ["run", "dlrm_tiny", "-n", 1, "--seed", 3, "--data", data_root, "-o", output, "-q", "--threads", 1]
    with pytest.MonkeyPatch.context() as patch:
        use_workers_inside(patch)
        done = run_inside(output, *words, "--set", "checkpoint.every=65536", "--set", "checkpoint.bits=8")
    assert done.returncode == 0, done.stderr
    (folder,) = made_in(output)
    return folder


def test_a_run_records_its_checkpoints_and_keeps_them(run_folder: Path) -> None:
    run = decode(run_folder / "extra/run_0/attempt_0/run.json", RunRecord)
    assert isinstance(run, RunRecord) and run.checkpoints is not None
    taken = run.checkpoints.taken
    trained = sum(block.num_samples for block in run.blocks)
    assert [each.samples_count for each in taken] == list(range(65536, trained + 1, 65536))
    assert [each.is_base for each in taken][:2] == [True, False] and run.checkpoints.error is None
    kept = sorted(int(path.name) for path in (run_folder / "extra/run_0/checkpoints").iterdir())
    assert kept == [each.index for each in taken]


def test_a_checkpoint_is_served_by_its_number(run_folder: Path, data_root: Path) -> None:
    entry = load_entry("dlrm_tiny")
    digest = entry.benchmark.definition_sha256
    place = find_weights(f"{run_folder}:0@1")
    assert place == run_folder / "extra/run_0/checkpoints/1"
    restored = read_checkpoint(place, digest)
    data = ensure_dataset(entry.workload.data, data_root, num_threads=1)
    workload: Any = entry.workload.implementation.load(entry.workload.spec(data, seed=9), SingleProcess())
    workload.build()
    weights = {name.removeprefix("model."): value for name, value in restored.items() if name.startswith("model.")}
    workload.model.load_state_dict(weights)
    run = json.loads((run_folder / "extra/run_0/attempt_0/run.json").read_text())
    (same,) = [each["quality"] for each in run["evaluations"] if each["samples_count"] == 131072] or [None]
    assert workload.evaluate() == pytest.approx(same, abs=2e-3)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("0@9", ExitCode.INPUT, "no checkpoint 9 of this run: there are 0, 1"),
        ("7@0", ExitCode.INPUT, "it has none"),
        ("0@x", ExitCode.USAGE, "is no run's number"),
        ("0@1@2", ExitCode.USAGE, "is no run's number"),
        ("@1", ExitCode.USAGE, "is no run's number"),
        ("0@-1", ExitCode.USAGE, "is no run's number"),
    ],
)
def test_what_is_no_checkpoint_is_not_served(run_folder: Path, text: str, code: ExitCode, words: str) -> None:
    with pytest.raises(HarnessError) as caught:
        find_weights(f"{run_folder}:{text}")
    assert caught.value.exit_code == code and words in str(caught.value)


@pytest.mark.usefixtures("workers_inside")
def test_a_disk_that_fills_up_keeps_the_run_and_ends_with_nine(
    data_root: Path, tmp_path: Path, dlrmbench: Command
) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (48 << 10, 48 << 10))  # a table of 1,000 rows takes 62.5 KiB

    words = ["run", "dlrm_tiny", "-n", 1, "--data", data_root, "-o", tmp_path / "full", "-q", "--threads", 1]
    done = dlrmbench(*words, "--set", "checkpoint.every=10%", preexec_fn=limit)
    assert done.returncode == ExitCode.RESOURCES, done.stderr
    assert "run 1 of 1 is complete and kept, its checkpoints are not" in done.stderr
    (folder,) = made_in(tmp_path / "full")
    assert len(list(folder.glob("results/*/*/result_0.txt"))) == 1
    assert list((folder / "extra/run_0/checkpoints").iterdir()) == []
    run = json.loads((folder / "extra/run_0/attempt_0/run.json").read_text())
    assert run["status"] == "success" and run["checkpoints"]["exit_code"] == ExitCode.RESOURCES
    assert run["checkpoints"]["taken"] == []


@pytest.mark.usefixtures("workers_inside")
def test_a_measurement_without_its_checkpoints_is_none(data_root: Path, tmp_path: Path, dlrmbench: Command) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (48 << 10, 48 << 10))

    words = [
        "run",
        "dlrm_tiny",
        "--throughput",
        70,
        "--data",
        data_root,
        "-o",
        tmp_path / "full",
        "-q",
        "--threads",
        1,
    ]
    done = dlrmbench(*words, "--set", "checkpoint.every=10%", preexec_fn=limit)
    assert done.returncode == ExitCode.RESOURCES and "process 1 measured nothing" in done.stderr
    (folder,) = made_in(tmp_path / "full")
    assert not (folder / "extra/throughput.json").exists()


def test_32_bits_with_restores_are_the_run_without_checkpoints(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same seed: quality to the last digit, however often training went on from a checkpoint; 2 bits are not."""
    use_workers_inside(monkeypatch)
    found = {}
    for name, settings in (
        ("plain", {}),
        ("exact", {"bits": 32, "restores": 3}),
        ("coarse", {"bits": 2, "restores": 3}),
    ):
        words = [
            "run",
            "dlrm_tiny",
            "--quality",
            8192,
            "-n",
            5,
            "--seed",
            3,
            "--data",
            data_root,
            "-q",
            "--name",
            name,
        ]
        given = [word for key, value in settings.items() for word in ("--set", f"checkpoint.{key}={value}")]
        every = ["--set", "checkpoint.every=1024"] if settings else []
        done = run_inside(tmp_path, *words, "--threads", 1, "-o", tmp_path / name, *given, *every)
        assert done.returncode == 0, done.stderr
        (folder,) = made_in(tmp_path / name)
        processes = json.loads((folder / "extra/quality.json").read_text())["processes"]
        found[name] = [[(each["auc"], each["log_loss"]) for each in process["evaluations"]] for process in processes]
        if settings:
            assert [process["checkpoints"]["num_restores"] for process in processes] == [3] * 5
            assert not list(folder.glob("extra/quality_*/checkpoints"))
    assert found["plain"] == found["exact"] != found["coarse"]
    base, new = (made_in(tmp_path / name)[0] for name in ("plain", "coarse"))
    done = run_inside(tmp_path, "diff", base, new)
    assert "checkpoint.bits" in done.stdout and "checkpoint.every" in done.stdout
    done = run_inside(tmp_path, "compare", base, new)
    assert "checkpoint.bits" in done.stdout


@pytest.mark.usefixtures("workers_inside")
def test_more_restores_than_checkpoints_are_refused(data_root: Path, tmp_path: Path, inside: Command) -> None:
    words = ["run", "dlrm_tiny", "--quality", 4096, "--data", data_root, "-o", tmp_path / "o", "-q"]
    done = inside(*words, "--set", "checkpoint.every=2048", "--set", "checkpoint.restores=3")
    assert done.returncode == ExitCode.USAGE
    assert "checkpoint.restores is 3, but 4096 samples make 2 checkpoints" in done.stderr


def test_the_study_of_a_set_adds_up_what_its_run_recorded(run_folder: Path, tmp_path: Path) -> None:
    from reports.page.content import gather_everything

    run = decode(run_folder / "extra/run_0/attempt_0/run.json", RunRecord)
    assert isinstance(run, RunRecord) and run.checkpoints is not None
    taken = run.checkpoints.taken
    (study,) = gather_everything([run_folder], second_opinion=False, mtbf_s=43_200.0).studies
    (table,) = study.tables
    (row,) = (dict(zip((column.name for column in table.columns), each, strict=True)) for each in table.rows)
    assert study.kind == "checkpoint" and (row["Bits"], row["Policy"], row["Checkpoints"]) == (
        8, "intermittent", len(taken),
    )  # fmt: skip
    written = sum(each.num_bytes for each in taken)
    assert row["All written"] == written
    assert row["All, × fewer"] == pytest.approx(run.checkpoints.full_bytes * len(taken) / written)
    assert row["To restore"] == max(each.restore_bytes for each in taken)
    assert row["Restoring"] == run.checkpoints.restore_s and row["Best interval"] > 0
    origins = {column.name: column.origin for column in table.columns}
    assert (origins["Stall"], origins["All, × fewer"], origins["Best interval"], origins["Published"]) == (
        "measured", "computed", "modelled", "published",
    )  # fmt: skip
    assert "optimizer sums" in study.findings[0] and "Young/Daly" in study.findings[1]
    done = run_inside(tmp_path, "report", run_folder, "-o", "page.html", "--mtbf", "12h", "--no-second-opinion")
    assert done.returncode == 0, done.stderr
    assert "Young/Daly" in (tmp_path / "page.html").read_text() and "6 to 17" in (tmp_path / "page.html").read_text()
    for text in ("12", "0h", "soon"):
        done = run_inside(tmp_path, "report", run_folder, "--mtbf", text)
        assert done.returncode == ExitCode.USAGE and "--mtbf" in done.stderr


@pytest.mark.parametrize(("stall_s", "mtbf_s"), [(0.01, 3600.0), (1.0, 43_200.0), (30.0, 3600.0)])
def test_the_interval_loses_least_of_all_by_dalys_exact_model(stall_s: float, mtbf_s: float) -> None:
    """Total time over useful time, M e^(R/M) (e^((t + d)/M) - 1) / t, of failures at random (Daly 2006, eq. 13)."""
    from scipy.optimize import minimize_scalar

    from reports.facts.checkpoints import best_interval

    row = {"Stall": stall_s / 2, "Waiting": stall_s / 2, "Writing": 0.0, "Restoring": 5.0}
    found_s, share = best_interval(row, mtbf_s)

    def total(interval_s: float) -> float:
        return float(mtbf_s * np.exp(5.0 / mtbf_s) * np.expm1((interval_s + stall_s) / mtbf_s) / interval_s)

    least = minimize_scalar(total, bounds=(stall_s, 10 * np.sqrt(stall_s * mtbf_s)), method="bounded")
    assert found_s == pytest.approx(least.x, rel=0.02)
    assert share == pytest.approx(1 - 1 / least.fun, rel=0.1)
    assert best_interval({**row, "Writing": 1e5}, mtbf_s)[0] == 1e5
