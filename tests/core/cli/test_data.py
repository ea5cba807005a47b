"""`dlrmbench data`: generate and verify as a user does, with the exit codes and messages that are documented."""

import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mlperf_layout_builder import cap_tables, write_multi_hot_layout
from places import ROOT
from waiting import HANG_S, wait_until

from harness.cli import main
from harness.config.catalog import load_entry
from harness.run_sets.dataset import making_lock
from reference_models.data.criteo.published import published_multi_hot
from reference_models.data.registry import locate_dataset
from reference_models.data.store.layout import CLICKS
from reference_models.data.store.manifest import MANIFEST, read_manifest
from rules.benchmarks.loader import read_definition_text

DEFINITION = ROOT / "rules" / "benchmarks" / "dlrm_tiny.toml"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A user's definition of a dataset that takes no time."""
    lines = []
    for line in read_definition_text(DEFINITION).splitlines():
        if line.startswith("sha256 ="):
            continue
        key = line.partition(" = ")[0]
        lines.append({"train_samples": "train_samples = 4000", "eval_samples": "eval_samples = 1000"}.get(key, line))
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(lines).replace('name = "dlrm_tiny"', 'name = "mine"'))
    return path


def run(*arguments: object) -> int:
    """The command line in this process; its exit code."""
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def folder_of(definition: Path, root: Path) -> Path:
    return locate_dataset(load_entry(definition).workload.data, root)


def test_generate_then_verify(mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "data"
    assert run("data", "generate", mine, "--data", root, "--threads", 2) == 0
    out, err = capfd.readouterr()
    folder = folder_of(mine, root)
    assert out == f"{folder}\n"
    assert "generating click_log_tiny: 5,000 samples" in err
    digest = read_manifest(folder)["dataset_sha256"]
    for what in (("verify", mine, "--data", root), ("verify", folder)):
        assert run("data", *what) == 0
        assert f"dataset_sha256 {digest}" in capfd.readouterr().out


def test_generating_again_does_nothing(mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("data", "generate", mine, "--data", tmp_path) == 0
    times = {name: (folder_of(mine, tmp_path) / name).stat().st_mtime_ns for name in (*CLICKS.files, MANIFEST)}
    capfd.readouterr()
    assert run("data", "generate", mine, "--data", tmp_path) == 0
    assert "already there" in capfd.readouterr().err
    assert times == {
        name: (folder_of(mine, tmp_path) / name).stat().st_mtime_ns for name in (*CLICKS.files, MANIFEST)
    }


def test_a_damaged_dataset_is_found_and_then_replaced(
    mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run("data", "generate", mine, "--data", tmp_path)
    damaged = folder_of(mine, tmp_path) / "train_dense.npy"
    with damaged.open("r+b") as file:
        file.truncate(1000)
    capfd.readouterr()
    assert run("data", "verify", mine, "--data", tmp_path) == 8
    assert "train_dense.npy: 1000 bytes, the manifest says" in capfd.readouterr().err
    assert run("data", "generate", mine, "--data", tmp_path) == 0
    assert "replacing a damaged dataset" in capfd.readouterr().err
    assert run("data", "verify", mine, "--data", tmp_path) == 0


def test_another_dataset_is_never_replaced(mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run("data", "generate", mine, "--data", tmp_path)
    folder = folder_of(mine, tmp_path)
    manifest = (folder / MANIFEST).read_text()
    mine.write_text(mine.read_text().replace("train_samples = 4000", "train_samples = 5000"))
    capfd.readouterr()
    assert run("data", "generate", mine, "--data", folder) == 8
    assert "It is another dataset" in capfd.readouterr().err
    assert (folder / MANIFEST).read_text() == manifest


def test_a_full_disk_exits_9_and_leaves_no_dataset(
    mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    assert run("data", "generate", mine, "--data", tmp_path) == 9
    assert "No space left on device. Free some space" in capfd.readouterr().err
    assert not any((folder_of(mine, tmp_path) / name).exists() for name in (*CLICKS.files, MANIFEST))


def test_a_place_that_cannot_be_written_exits_2(
    mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert run("data", "generate", mine, "--data", tmp_path / "file" / "data") == 2
    assert str(tmp_path / "file") in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("generate", "dlrm_tinny"), 2, "unknown benchmark 'dlrm_tinny'. Did you mean 'dlrm_tiny'"),
        (("generate", "dlrm_dcnv2"), 2, "its data is not generated"),
        (("prepare", "dlrm_tiny", "--train", __file__), 2, "'click_log', which is generated: no files go into it"),
        (("prepare", "dlrm_dcnv2", "--train", __file__), 2, "'mlperf_multi_hot', which is read as it is"),
        (("verify", "dlrm_tiny", "--data", "nowhere"), 8, "does not exist"),
        (("verify", "."), 8, "is not finished (no manifest.json)"),
        (("generate", "dlrm_tiny", "--threads", "0"), 2, "--threads"),
    ],
)
def test_bad_input_has_one_message(
    arguments: tuple[str, ...],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("data", *arguments) == code
    err = capfd.readouterr().err
    assert message in err
    assert "Traceback" not in err


def has_opened(process: "subprocess.Popen[str]", path: Path) -> bool:
    """Whether a process has a file open; also true of one that has ended."""
    try:
        opened = [link.readlink() for link in Path(f"/proc/{process.pid}/fd").iterdir()]
    except OSError:  # one was closed meanwhile
        opened = []
    return path.resolve() in opened or process.poll() is not None


@pytest.mark.slow
def test_two_processes_make_one_dataset(mine: Path, tmp_path: Path) -> None:
    """The second waits for the first, and then finds the dataset finished."""
    command = [sys.executable, "-m", "harness", "data", "generate", str(mine), "--data", str(tmp_path)]
    folder = folder_of(mine, tmp_path)
    with making_lock(folder, None):
        both = [subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in "ab"]
        wait_until(lambda: all(has_opened(process, folder / ".lock") for process in both), "both at the lock")
        assert [process.poll() for process in both] == [None, None]
        assert not (folder / MANIFEST).exists()
    said = [process.communicate(timeout=HANG_S)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted("already there" in text for text in said) == [False, True]
    assert run("data", "verify", folder) == 0


@pytest.mark.slow
def test_generating_and_verifying_need_no_torch(mine: Path, tmp_path: Path) -> None:
    script = (
        "import sys\nfrom harness.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit as left: assert left.code == 0, left.code\n"
        "assert 'torch' not in sys.modules"
    )
    for verb in ("generate", "verify"):
        command = [sys.executable, "-c", script, "data", verb, str(mine), "--data", str(tmp_path)]
        subprocess.run(command, check=True, capture_output=True, timeout=HANG_S)


def test_files_of_mlperf_are_held_against_the_digests_that_are_published(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = cap_tables(load_entry("dlrm_dcnv2").workload.data, 50, train_samples=46, eval_samples=1)
    assert published_multi_hot(data) == {}, "a part of the data"
    names = published_multi_hot(load_entry("dlrm_dcnv2").workload.data)
    write_multi_hot_layout(tmp_path / "data", data, [2] * 24)
    assert {path.name for path in (tmp_path / "data").iterdir()} == {*names}
    assert {len(digest) for digest in names.values()} == {32}
    digests = {name: hashlib.md5((tmp_path / "data" / name).read_bytes()).hexdigest() for name in names}
    text = read_definition_text(ROOT / "rules" / "benchmarks" / "dlrm_dcnv2.toml")
    for key, number in (("train_samples = 4195197692", 46), ("eval_samples = 89137319", 1)):
        assert key in text
        text = text.replace(key, f"{key.split()[0]} = {number}")
    mine = tmp_path / "mine.toml"
    mine.write_text(text.replace('name = "dlrm_dcnv2"', 'name = "mine"'))
    for changed, code, words in (
        ({}, 0, "no digests of these files are published"),
        (digests, 0, "contents of 72 of 72 files have their published MD5"),
        ({**digests, "day_7_labels.npy": "0" * 32}, 8, "day_7_labels.npy: MD5 is "),
    ):
        monkeypatch.setattr("reference_models.data.criteo.published.published_multi_hot", lambda data, c=changed: c)
        assert run("data", "verify", mine, "--data", tmp_path / "data") == code
        out, err = capfd.readouterr()
        assert words in " ".join((out + err).split())
