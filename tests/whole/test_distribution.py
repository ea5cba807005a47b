"""The source archive has every file that is tracked; the wheel all that an installed copy names."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from places import ROOT
from waiting import HANG_S

from harness.config.catalog import load_entry
from reference_models.registry import find_implementation

_BUILD = """
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""


def tracked_files() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: nothing says which files belong to the product")
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files alone, in a folder that is no checkout."""
    folder = tmp_path_factory.mktemp("source")
    for name in tracked_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def build(what: str, source: Path, output: Path) -> Path:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, what, str(output)],
        cwd=source,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
    )
    assert done.returncode == 0, done.stderr
    return output / done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_the_source_archive_has_every_tracked_file(source: Path, tmp_path: Path) -> None:
    with tarfile.open(build("build_sdist", source, tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert sorted(set(tracked_files()) - names) == []


def test_lint_of_an_unpacked_archive_leaves_out_what_pip_built_there(tmp_path: Path) -> None:
    shutil.copy2(ROOT / "pyproject.toml", tmp_path)
    built = tmp_path / "build" / "lib" / "harness" / "built.py"
    built.parent.mkdir(parents=True)
    built.write_text("import os\n")
    ruff = [sys.executable, "-m", "ruff", "check", "--no-cache", "."]
    assert subprocess.run(ruff, cwd=tmp_path, capture_output=True, timeout=HANG_S, check=False).returncode == 0


@pytest.mark.once("a wheel is built")
def test_the_wheel_has_what_the_product_names(source: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(build("build_wheel", source, tmp_path)) as archive:
        names = set(archive.namelist())
    wanted = {
        name for name in tracked_files() if name.split("/")[0] in ("harness", "reference_models", "rules", "reports")
    }
    assert sorted(wanted - names) == []
    assert not [name for name in names if name.startswith("tests/")]


def test_the_line_that_installs_torchrec_names_files_that_are_there() -> None:
    words = find_implementation(load_entry("dlrm_tiny").workload.model_name, "torchrec").how_to_install.split()
    path = Path(words[words.index("-r") + 1])
    assert path.is_file() and path.with_name("torchrec-gpu.txt").is_file()


def test_torchrec_has_the_same_versions_on_cpus_and_gpus() -> None:
    folder = ROOT / "reference_models" / "dlrm" / "requirements"
    on_cpu, on_gpu = (
        [line for line in (folder / f"torchrec-{name}.txt").read_text().splitlines() if not line.startswith("#")]
        for name in ("cpu", "gpu")
    )
    assert on_gpu == [line.replace("fbgemm-gpu-cpu", "fbgemm-gpu") for line in on_cpu] and len(on_gpu) > 5
