"""Weights that runs leave: written whole or not at all, read back bit for bit, and nothing taken on trust."""

import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command import Command
from inside import run_inside, use_workers_inside
from made_sets import made_in
from small_set import SmallBenchmark

from harness.experiment.request import Request
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.weights import keep_weights, read_weights
from harness.run_sets.names import find_weights
from reference_models.process.artifact import make_npy_header
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation
from reference_models.training.workload import HoldsWeights

pytestmark = pytest.mark.numeric

DIGEST = "d" * 64
ABOUT = {
    "benchmark": "toy", "benchmark_version": 1, "definition_sha256": DIGEST, "dataset_sha256": None,
    "implementation": "reference", "run_index": 0, "seed": 1, "status": "success", "samples_count": 512,
    "quality": 0.75, "log_sha256": "1" * 64,
}  # fmt: skip
TENSORS = {
    "embedding_bags.0.weight": torch.arange(24, dtype=torch.float32).reshape(6, 4) / 7,
    "top_mlp.0.bias": torch.tensor([0.5, -3.0]),
    "scale": torch.tensor(2.5, dtype=torch.float64),
    "steps": torch.tensor([7]),
    "half": torch.tensor([[1.5]], dtype=torch.float16),
    "is_frozen": torch.tensor([True, False]),
}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The folder of weights of a run."""
    assert keep_weights(tmp_path, TENSORS, ABOUT).error is None
    return tmp_path / "weights"


def code_and_message(folder: Path, definition_sha256: str = DIGEST) -> tuple[ExitCode, str]:
    with pytest.raises(HarnessError) as caught:
        read_weights(folder, definition_sha256)
    return caught.value.exit_code, str(caught.value)


def test_weights_come_back_bit_for_bit(kept: Path) -> None:
    read = read_weights(kept, DIGEST)
    assert read.tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert read.tensors[name].dtype == tensor.dtype and torch.equal(read.tensors[name], tensor), name
    assert (read.manifest.run_index, read.manifest.quality) == (0, 0.75)
    assert sorted(path.name for path in kept.parent.iterdir()) == ["weights"]


def test_the_files_are_what_numpy_reads(kept: Path) -> None:
    for name, tensor in TENSORS.items():
        found = np.load(kept / f"{name}.npy", allow_pickle=False)
        assert found.dtype == tensor.numpy().dtype and np.array_equal(found, tensor.numpy()), name
        assert len(make_npy_header(str(found.dtype), found.shape)) % 64 == 0


def test_bfloat16_is_kept_as_float32_without_loss(tmp_path: Path) -> None:
    tensor = torch.randn(33, generator=torch.Generator().manual_seed(0)).bfloat16()
    keep_weights(tmp_path, {"w": tensor}, ABOUT)
    (found,) = read_weights(tmp_path / "weights", DIGEST).tensors.values()
    assert found.dtype == torch.float32 and torch.equal(found.bfloat16(), tensor)


def test_views_are_kept_as_their_values(tmp_path: Path) -> None:
    whole = torch.arange(30.0).reshape(5, 6)
    keep_weights(tmp_path, {"w": whole[:, 1:3].t()}, ABOUT)
    assert torch.equal(read_weights(tmp_path / "weights", DIGEST).tensors["w"], whole[:, 1:3].t())


def test_weights_of_an_earlier_attempt_give_way(kept: Path) -> None:
    (kept.parent / "weights.partial").mkdir()
    (kept.parent / "weights.partial" / "w.npy").write_bytes(b"begun by a process that was killed")
    keep_weights(kept.parent, {"w": torch.ones(2)}, ABOUT)
    assert list(read_weights(kept, DIGEST).tensors) == ["w"]
    assert [path.name for path in kept.parent.iterdir()] == ["weights"]


@contextmanager
def files_up_to(num_bytes: int) -> Iterator[None]:
    """Let no file grow larger, as a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_nothing_half_written(kept: Path) -> None:
    before = read_weights(kept, DIGEST).tensors
    with files_up_to(1 << 16):
        lost = keep_weights(kept.parent, {"a": torch.ones(2), "b": torch.ones(1 << 16)}, ABOUT)
    assert lost.exit_code == ExitCode.RESOURCES and lost.num_bytes == 0
    assert lost.error is not None and "b.npy" in lost.error
    assert [path.name for path in kept.parent.iterdir()] == ["weights"]
    assert read_weights(kept, DIGEST).tensors.keys() == before.keys()


@pytest.mark.parametrize("name", ["../escape", "a/b", "", ".", "a..b", "/tmp/x", "x" * 201])
def test_a_name_that_leads_elsewhere_is_not_written(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "inner" / "run_0"
    folder.mkdir(parents=True)
    lost = keep_weights(folder, {name: torch.ones(2)}, ABOUT)
    assert lost.exit_code == ExitCode.USAGE and lost.error
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_weights_of_another_definition_are_refused(kept: Path) -> None:
    code, message = code_and_message(kept, "e" * 64)
    assert code == ExitCode.USAGE and "another definition" in message and "dddddddddddd" in message


def change_manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def damage(folder: Path) -> None:
        content = json.loads((folder / "manifest.json").read_text())
        change(content)
        (folder / "manifest.json").write_text(json.dumps(content))

    return damage


def change_file(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    def damage(folder: Path) -> None:
        path = folder / "top_mlp.0.bias.npy"
        path.write_bytes(change(path.read_bytes()))

    return damage


def replace_file(replace: Callable[[Path], object]) -> Callable[[Path], object]:
    def damage(folder: Path) -> None:
        path = folder / "top_mlp.0.bias.npy"
        content = path.read_bytes()
        (folder / "other").write_bytes(content)
        path.unlink()
        replace(path)

    return damage


def object_array(folder: Path) -> None:
    """What numpy would unpickle; the manifest goes along with it as far as it can."""
    path = folder / "top_mlp.0.bias.npy"
    np.save(path, np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    change_manifest(lambda m: m["tensors"]["top_mlp.0.bias"].update(num_bytes=path.stat().st_size))(folder)


HUGE = 1 << 50
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "manifest.json"),
    "manifest of no JSON": (lambda folder: (folder / "manifest.json").write_bytes(b"\x80\x04pickle"), "UTF-8"),
    "path with ..": (change_manifest(lambda m: m["tensors"].update({"../../x": m["tensors"]["steps"]})), "tensors"),
    "absolute path": (change_manifest(lambda m: m["tensors"].update({"/etc/passwd": m["tensors"]["steps"]})), "tens"),
    "dots in a row": (change_manifest(lambda m: m["tensors"].update({"a..b": m["tensors"]["steps"]})), "tensors"),
    "no tensors": (change_manifest(lambda m: m["tensors"].clear()), "tensors"),
    "object type": (change_manifest(lambda m: m["tensors"]["steps"].update(dtype="object")), "steps"),
    "negative shape": (change_manifest(lambda m: m["tensors"]["steps"].update(shape=[-1])), "steps"),
    "no such dimension": (change_manifest(lambda m: m["tensors"]["steps"].update(shape=[0, HUGE])), "steps"),
    "huge shape": (change_manifest(lambda m: m["tensors"]["steps"].update(shape=[HUGE])), "steps.num_bytes"),
    "huge shape and size": (
        change_manifest(
            lambda m: m["tensors"]["steps"].update(
                shape=[HUGE], num_bytes=8 * HUGE + len(make_npy_header("int64", (HUGE,)))
            )
        ),
        "steps.npy",
    ),
    "other shape of equal size": (
        change_manifest(lambda m: m["tensors"]["embedding_bags.0.weight"].update(shape=[4, 6])),
        "header",
    ),
    "a flipped bit": (change_file(lambda data: data[:-1] + bytes([data[-1] ^ 1])), "sha256"),
    "another header": (change_file(lambda data: data.replace(b"False", b"True ")), "header"),
    "object header": (change_file(lambda data: data.replace(b"<f4", b"|O4")), "header"),
    "cut short": (change_file(lambda data: data[:-1]), "bytes"),
    "too long": (change_file(lambda data: data + b"\0"), "bytes"),
    "empty": (change_file(lambda data: b""), "bytes"),
    "objects": (object_array, "top_mlp.0.bias"),
    "missing": (replace_file(lambda path: None), "No such file"),
    "a link": (replace_file(lambda path: path.symlink_to("other")), "no regular file"),
    "a pipe": (replace_file(os.mkfifo), "no regular file"),
    "a folder": (replace_file(Path.mkdir), "no regular file"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_an_error_that_names_the_place(name: str, kept: Path) -> None:
    damage, place = DAMAGES[name]
    damage(kept)
    code, message = code_and_message(kept)
    assert code == ExitCode.INPUT and place in message, message


def test_a_sparse_file_that_no_memory_holds_is_refused_before_it_is_read(tmp_path: Path) -> None:
    keep_weights(tmp_path, {"w": torch.ones(2)}, ABOUT)
    folder, values = tmp_path / "weights", 1 << 40
    header = make_npy_header("float32", (values,))
    with (folder / "w.npy").open("wb") as file:
        file.write(header)
        try:
            file.truncate(len(header) + 4 * values)
        except OSError:
            pytest.skip("no sparse files of terabytes here")
    size = {"shape": [values], "num_bytes": len(header) + 4 * values}
    change_manifest(lambda manifest: manifest["tensors"]["w"].update(size))(folder)
    assert code_and_message(folder)[0] == ExitCode.RESOURCES


@pytest.mark.parametrize("name", ["reference", "optimized"])
def test_workloads_hand_out_the_weights_that_they_train(name: str, toy_spec: Any) -> None:
    workload = find_implementation("dlrm", name).load(toy_spec(runtime={"implementation": name}), SingleProcess())
    workload.build()
    assert isinstance(workload, HoldsWeights)
    before = {key: value.clone() for key, value in (workload.weights() or {}).items()}
    workload.train(3)
    after = workload.weights() or {}
    layers = [f"{mlp}.{layer}" for mlp in ("bottom_mlp", "top_mlp") for layer in (0, 2)]
    tables = [f"embedding_bags.{index}.weight" for index in range(3)]
    assert list(after) == [*tables, *(f"{layer}.{part}" for layer in layers for part in ("weight", "bias"))]
    for key, value in after.items():
        assert before[key].shape == value.shape and not torch.equal(before[key], value), key


@pytest.fixture
def toy_spec(tmp_path: Path) -> Any:
    from toy_clicks import spec_maker, write_dataset

    write_dataset(tmp_path)
    return spec_maker(tmp_path)


@pytest.fixture(scope="module")
def kept_set(small: SmallBenchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run that keeps its weights; not to be changed."""
    output = tmp_path_factory.mktemp("kept")
    arguments = ["run", *small.options, "-n", 1, "--keep-weights", "--seed", 3, "-o", output, "-q"]
    with pytest.MonkeyPatch.context() as patch:
        use_workers_inside(patch)
        done = run_inside(output, *arguments)
    assert done.returncode == 0, done.stderr
    (folder,) = made_in(output)
    return folder


@pytest.mark.slow
def test_a_run_keeps_the_weights_of_its_last_evaluation(kept_set: Path, small: SmallBenchmark) -> None:
    from harness.config.catalog import load_entry
    from harness.run_sets.dataset import ensure_dataset

    record = json.loads((kept_set / "extra/run_set.json").read_text())
    run = json.loads((kept_set / "extra/run_0/attempt_0/run.json").read_text())
    read = read_weights(find_weights(str(kept_set)), record["benchmark"]["definition_sha256"])
    assert record["keep_weights"] is True
    assert run["weights"]["error"] is None and run["weights"]["num_bytes"] == read.manifest.num_bytes
    assert read.manifest.log_sha256 == run["log_sha256"] and read.manifest.seed == run["seed"]
    entry = load_entry(small.definition)
    folder = ensure_dataset(entry.workload.data, small.data_root, num_threads=1)
    workload: Any = entry.workload.implementation.load(entry.workload.spec(folder, seed=9), SingleProcess())
    workload.build()
    workload.model.load_state_dict(read.tensors)
    assert workload.evaluate() == run["evaluations"][-1]["quality"] == read.manifest.quality


def test_weights_are_named_by_set_and_run(kept_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = kept_set / "extra/run_0/weights"
    assert find_weights(str(kept_set)) == find_weights(f"{kept_set}:0") == expected
    monkeypatch.setenv("DLRMBENCH_OUTPUT", str(kept_set.parent))
    assert find_weights(kept_set.name).resolve() == find_weights(f"{kept_set.name}:0").resolve() == expected.resolve()
    for text, code in (
        (f"{kept_set}:1", ExitCode.INPUT),
        (f"{kept_set}:x", ExitCode.USAGE),
        ("nowhere", ExitCode.INPUT),
    ):
        with pytest.raises(HarnessError) as caught:
            find_weights(text)
        assert caught.value.exit_code == code


def test_neither_check_nor_report_minds_kept_weights(kept_set: Path, inside: Command) -> None:
    done = inside("check", kept_set, "--no-second-opinion")
    assert done.returncode == 0, done.stdout + done.stderr
    assert inside("report", kept_set, "-o", "page.html", "--no-second-opinion").returncode == 0


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_a_disk_that_fills_up_keeps_the_run_and_ends_with_nine(
    small: SmallBenchmark, tmp_path: Path, dlrmbench: Command, inside: Command
) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (48 << 10, 48 << 10))  # a table of 1,000 rows takes 62.5 KiB

    arguments = ["run", *small.options, "-n", 1, "--keep-weights", "-o", tmp_path / "full", "-q"]
    done = dlrmbench(*arguments, preexec_fn=limit)
    assert done.returncode == ExitCode.RESOURCES, done.stderr
    assert "run 0 (1 of 1) is complete and kept, its weights are not" in done.stderr and "resume" in done.stderr
    (folder,) = made_in(tmp_path / "full")
    assert len(list(folder.glob("results/*/*/result_0.txt"))) == 1
    assert not list(folder.glob("extra/run_0/weights*"))
    run = json.loads((folder / "extra/run_0/attempt_0/run.json").read_text())
    assert run["status"] == "success" and run["blocks"] and run["weights"]["exit_code"] == ExitCode.RESOURCES
    resumed = inside("resume", folder, "-q")
    assert resumed.returncode == 0, resumed.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_resume_removes_what_was_begun_and_keeps_weights_of_further_runs(
    kept_set: Path, tmp_path: Path, inside: Command
) -> None:
    folder = tmp_path / kept_set.name
    shutil.copytree(kept_set, folder)
    (folder / "extra/run_0/weights.partial").mkdir()
    done = inside("resume", folder, "-n", 2, "-q")
    assert done.returncode == 0, done.stderr
    found = sorted(path.relative_to(folder / "extra").as_posix() for path in folder.glob("extra/run_*/weights*"))
    assert found == ["run_0/weights", "run_1/weights"]
    digest = json.loads((folder / "extra/run_set.json").read_text())["benchmark"]["definition_sha256"]
    assert read_weights(find_weights(f"{folder}:1"), digest).manifest.run_index == 1


def test_weights_that_do_not_fit_are_refused_before_anything_is_written(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.api import run

    monkeypatch.setattr("harness.experiment.create.free_disk_bytes", lambda path: 1 << 16)
    with pytest.raises(HarnessError) as caught:
        run(
            "dlrm_tiny",
            runs=2,
            settings={"runtime.threads": 1},
            keep_weights=True,
            data=data_root,
            output=tmp_path / "out",
        )
    assert caught.value.exit_code == ExitCode.RESOURCES
    assert "--keep-weights writes" in str(caught.value) and "2 runs" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_call_is_recorded_as_the_command_that_does_the_same() -> None:
    words = Request(benchmark="dlrm_tiny", keep_weights=True, runs=2, output=Path("out")).command()[:-2]
    assert words == ["dlrmbench", "run", "dlrm_tiny", "--keep-weights", "--runs", "2"]


@pytest.mark.parametrize("more", [("--throughput", "5"), ("--quality", "512"), ("--beside", "latest")])
def test_what_trains_nothing_to_the_target_keeps_no_weights(more: tuple[str, str], inside: Command) -> None:
    done = inside("run", "dlrm_tiny", "--keep-weights", *more)
    assert done.returncode == ExitCode.USAGE and "--keep-weights" in done.stderr


@pytest.mark.slow
def test_code_that_hands_out_no_weights_is_refused_before_it_trains(
    data_root: Path, tmp_path: Path, inside: Command
) -> None:
    (tmp_path / "own.py").write_text(
        "class Mute:\n"
        "    def __init__(self, spec, world): pass\n"
        "    def build(self): raise SystemExit('it was built')\n"
    )
    done = inside(
        "run", "dlrm_tiny", "-n", 1, "--keep-weights", "--implementation", "own.py:Mute", "--data", data_root,
        "--threads", 1,
    )  # fmt: skip
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert "does not hand out its weights" in done.stderr
