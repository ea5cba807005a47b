"""An implementation in a file of the user's: trained, on record by its digest, and never run unasked."""

import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Command
from made_sets import made_in
from places import ROOT
from seams import TRAINING
from sweep_builder import FastWorkers

from harness.config.run_config import Override, read_config_file, resolve
from reference_models.process.errors import ConfigError
from reference_models.registry import find_implementation, label_of, parse_place, pin_code
from rules.benchmarks.loader import read_definition_text

LOADER = """
from reference_models.dlrm.reference import ReferenceWorkload

def load(spec, world):
    return ReferenceWorkload(spec, world)
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(LOADER)
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def given(implementation: str) -> list[Override]:
    return [Override(key="runtime.implementation", value=implementation, source="option --implementation")]


@pytest.mark.slow
def test_the_example_of_the_readme_trains_and_is_named_by_its_digest(
    dlrmbench: Command, data_root: Path, tmp_path: Path
) -> None:
    text = (ROOT / "README.md").read_text()
    (source,) = re.findall(r"```python\n# small_start.py\n(.*?)```", text, flags=re.DOTALL)
    (line,) = re.findall(r"^dlrmbench (run .*small_start.*)$", text, flags=re.MULTILINE)
    path = tmp_path / "small_start.py"
    path.write_text(source)
    done = dlrmbench(*shlex.split(line), "--data", data_root, "-q")
    assert done.returncode in (0, 4), done.stderr
    (log,) = (tmp_path / "results").rglob("result_0.txt")
    assert f'"implementation", "value": "small_start.py:SmallStart@{digest(path)[:12]}"' in log.read_text()
    (record,) = (tmp_path / "results").rglob("run_set.json")
    entry = json.loads(record.read_text())["config"]["runtime.implementation"]
    assert entry["value"] == f"{path}:SmallStart@{digest(path)}"


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_resume_runs_a_file_only_where_it_is_given_again_and_unchanged(
    inside: Command, mine: Path, data_root: Path, tmp_path: Path
) -> None:
    place = f"{mine}:load"
    done = inside(
        "run", "dlrm_tiny", "-n", "1", "--threads", "1", "--implementation", place, "--data", data_root,
        "-o", tmp_path / "results", "-q",
    )  # fmt: skip
    assert done.returncode in (0, 4), done.stderr
    (folder,) = made_in(tmp_path / "results")
    (log,) = folder.rglob("result_0.txt")
    log.unlink()
    shutil.rmtree(folder / "extra" / "run_0")
    refused = inside("resume", folder)
    assert refused.returncode == 2
    assert f"dlrmbench resume {folder} --implementation {place}" in refused.stderr
    mine.write_text(LOADER + "# changed\n")
    changed = inside("resume", folder, "--implementation", place)
    assert (changed.returncode, "has changed" in changed.stderr) == (2, True), changed.stderr
    mine.write_text(LOADER)
    again = inside("resume", folder, "--implementation", place)
    # The run that was taken away is missed.
    assert log.is_file() and (again.returncode in (3, 4)), again.stderr


@pytest.mark.parametrize(
    ("verb", "key"),
    [
        *((verb, "implementation") for verb in ("check", "score", "report", "resume", "run", "show")),
        *((verb, "model") for verb in ("check", "score", "report", "resume", "run", "show", *TRAINING)),
    ],
)
def test_nothing_runs_a_file_that_only_a_set_or_a_definition_names(
    verb: str, key: str, inside: Command, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "tests" / "data" / "sets" / "runs", tmp_path / "runs")
    has_run = tmp_path / "has_run"
    (tmp_path / "bomb.py").write_text(f"open({str(has_run)!r}, 'w').close()\nraise SystemExit(99)\n")
    bomb = f"{tmp_path}/bomb.py:load"
    for definition in (tmp_path / "runs").rglob("definition.toml"):
        named = re.sub(r"(?m)^\[runtime\]$", f'[runtime]\n{key} = "{bomb}"', definition.read_text())
        own = named.replace('model = "dlrm"', 'model = "own"').replace('name = "dlrm_tiny"', 'name = "mine"', 1)
        definition.write_text(named if key == "implementation" else own)
        assert bomb in definition.read_text()
    for record in (tmp_path / "runs").rglob("run_set.json"):
        content = json.loads(record.read_text())
        content["config"][f"runtime.{key}"] = {"value": bomb, "source": f"option --{key}"}
        record.write_text(json.dumps(content))
    what = definition if verb in ("run", "show", *TRAINING) else tmp_path / "runs"
    done = inside(verb, what)
    assert done.returncode not in (1, 99) and not has_run.exists(), done.stderr
    assert verb not in ("resume", "run", *TRAINING) or (done.returncode == 2 and f"--{key}" in done.stderr), (
        done.stderr
    )


def test_a_definition_cannot_name_a_file(mine: Path, tmp_path: Path) -> None:
    text = read_definition_text(ROOT / "rules" / "benchmarks" / "dlrm_tiny.toml")
    definition = tmp_path / "tiny.toml"
    assert text.count("[runtime]\n") == 1
    definition.write_text(text.replace("[runtime]\n", f'[runtime]\nimplementation = "{mine}:load"\n'))
    with pytest.raises(ConfigError, match="named by its user, as --implementation"):
        resolve(definition, [])
    config = resolve(definition, given(f"{mine}:load"))
    assert config.workload.runtime.implementation == f"{mine}:load@{digest(mine)}"


@pytest.mark.parametrize("key", ["implementation", "model"])
def test_a_file_of_values_cannot_name_a_file(key: str, tmp_path: Path) -> None:
    """Nor is it looked at: it may be a stranger's, as a definition may."""
    config = tmp_path / "c.toml"
    config.write_text(f'[runtime]\n{key} = "{tmp_path}/nowhere.py:load"\n')
    with pytest.raises(ConfigError, match=f"c.toml: runtime.{key} .* named by its user, as --{key}"):
        read_config_file(config)
    config.write_text('[runtime]\nimplementation = "optimized"\n')
    assert [each.value for each in read_config_file(config)] == ["optimized"]


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        (LOADER, "lode", "Did you mean 'load'"),
        ("load = 3", "load", "is a int, expected an Implementation"),
        ("import nowhere_at_all", "load", "cannot be loaded: ModuleNotFoundError"),
        ("def load(:", "load", "cannot be loaded: SyntaxError"),
        ("raise SystemExit(3)", "load", "cannot be loaded: SystemExit"),
    ],
)
def test_what_is_no_implementation_is_an_error_in_one_line(
    source: str, name: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(source)
    with pytest.raises(ConfigError, match=message):
        find_implementation("dlrm", pin_code(f"{path}:{name}"))


@pytest.mark.parametrize(
    "source",
    ["import helper", "from helper import load", "from . import helper", "import helpers.more"],
)
def test_a_second_file_is_refused_by_an_error_that_says_so(source: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(source)
    (tmp_path / "helper.py").write_text(LOADER)
    (tmp_path / "helpers").mkdir()
    with pytest.raises(
        ConfigError, match=r"Own code is one file.*Put it into mine\.py, or install both as a package"
    ):
        find_implementation("dlrm", pin_code(f"{path}:load"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("raise ValueError('no luck')", "ValueError: no luck"),
        ("import helper", "Own code is one file"),
        ("spec.nonsense", "AttributeError: "),
    ],
)
def test_an_error_of_own_code_names_its_file_and_line_and_is_no_defect_of_ours(
    line: str, message: str, inside: Command, mine: Path, data_root: Path, tmp_path: Path
) -> None:
    mine.write_text(LOADER.replace("    return", f"    {line}\n    return"))
    (tmp_path / "helper.py").touch()
    given_options = ("-n", "1", "--threads", "1", "--implementation", f"{mine}:load", "--data", data_root, "-q")
    done = inside("run", "dlrm_tiny", *given_options)
    assert done.returncode == 2 and f"{mine}, line 5: " in done.stderr and message in done.stderr, done.stderr
    (words,) = (tmp_path / "results").glob("dlrm_tiny*/extra/run_0/attempt_0/stderr.txt")
    assert "Traceback" in words.read_text() and "Traceback" not in done.stderr
    assert f"\n  at {mine}, line 5, in load: {line}\n" in done.stderr
    assert "/extra/run_0/attempt_0; stderr.txt has the whole traceback. Complete the set with: " in done.stderr
    assert done.stderr.rstrip().endswith(f" --implementation {mine}:load")


def test_what_is_run_is_what_was_pinned(mine: Path) -> None:
    pinned = pin_code(f"{mine}:load")
    assert find_implementation("dlrm", pinned).load is find_implementation("dlrm", pinned).load
    mine.write_text(LOADER + "x = 1\n")
    with pytest.raises(ConfigError, match=f"has changed: its sha256 is {digest(mine)}"):
        find_implementation("dlrm", pinned)


@pytest.mark.slow
def test_a_file_can_be_swept_beside_a_name(
    mine: Path, workers: FastWorkers, command: Callable[..., tuple[int, str, str]], tmp_path: Path, data_root: Path
) -> None:
    axis = f"runtime.implementation=reference,{mine}:load"
    given_options = ("--axis", axis, "-n", "1", "-o", tmp_path / "out", "--data", data_root, "-q")
    code, _, err = command("sweep", "dlrm_tiny", *given_options)
    assert code == 0, err
    tables = [launch["tables"]["runtime"]["implementation"] for launch in workers.launches]
    assert tables == ["reference", f"{mine}:load@{digest(mine)}"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.py: no such file"):
        pin_code(f"{tmp_path}/gone.py:load")


@pytest.mark.parametrize("name", ["reference", "torchrec", "a.py", "a.py:", "a.py:b c", "a.txt:load"])
def test_names_are_no_places(name: str) -> None:
    assert parse_place(name) is None
    assert (label_of(name), pin_code(name)) == (name, name)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "too large"])
def test_code_is_in_a_regular_file_of_a_size_to_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(ConfigError, match=r"mine.py: .*expected a regular file of at most"):
        pin_code(f"{path}:load")
