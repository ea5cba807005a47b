"""Own code in the process that trains: a clock that it bends is seen, and optimizers are named as they are."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from command import Command
from inside import run_inside, use_workers_inside
from places import ROOT
from torch import nn

from reference_models.registry import MODELS, find_model
from reference_models.training.optimizers import SparseAdagrad, name_built
from rules.checks.result_set.consistency import SHIPPED_CODE
from rules.judge.checker import check_paths
from rules.logs import keys
from rules.logs.log import read_log

pytestmark = pytest.mark.numeric

OWN = '''
import time
import torch
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.training.workload import TrainCounts

class Other(torch.optim.{base}):
    """No optimizer of the definition."""

class OtherOptimizer(ReferenceWorkload):
    def build_model(self, num_embeddings):
        model, (tables, layers) = super().build_model(num_embeddings)
        return model, [tables, Other(layers.param_groups[0]["params"], lr=0.1)]

class Hidden:
    """Shows nothing but the protocol."""
    def __init__(self, spec, world):
        inner = ReferenceWorkload(spec, world)
        for name in dir(inner):
            if not name.startswith("_") and name not in ("optimizers", "model", "data"):
                try:
                    setattr(self, name, getattr(inner, name))
                except AttributeError:
                    pass
        for name in ("train_samples", "eval_samples", "global_batch_size"):
            setattr(Hidden, name, property(lambda self, name=name: getattr(inner, name)))

def slow_down(base):
    class Slow(base):
        def train(self, num_steps):
            end = real_ns() + 1_500_000_000
            while real_ns() < end:
                pass
            return super().train(num_steps)
    return Slow

real_ns = time.monotonic_ns

def bend_all():
    for name in ("monotonic", "perf_counter", "monotonic_ns", "perf_counter_ns"):
        now = getattr(time, name)
        setattr(time, name, lambda now=now, name=name: now() // 100 if name.endswith("ns") else now() / 100)

def bend(spec, world):
    bend_all()
    return slow_down(ReferenceWorkload)(spec, world)

def silent(spec, world):
    from harness.measure.training import Monitor
    Monitor.send = lambda self, event, **values: None
    return ReferenceWorkload(spec, world)

def late(spec, world):
    """A clock that is bent, and a run_start that is sent when most of the run is over."""
    from harness.measure.training import Monitor
    bend_all()
    send, held = Monitor.send, []
    def hold(self, event, **values):
        if event == "run_start":
            held.append((self, event, values))
        else:
            for monitor, name, more in held:
                send(monitor, name, **more)
            held.clear()
            send(self, event, **values)
    Monitor.send = hold
    return slow_down(ReferenceWorkload)(spec, world)

class TrainedBefore(ReferenceWorkload):
    def build(self):
        super().build()
        for _ in range(64):
            self.train(1)
'''


def write_own(folder: Path, base: str = "Adagrad") -> Path:
    path = folder / "own.py"
    path.write_text(OWN.replace("{base}", base))
    return path


def codes_of(folder: Path) -> dict[str, str]:
    (verdict,) = check_paths([folder], second_opinion=False)
    return {finding.code: finding.severity for finding in reversed(verdict.findings)}  # the worst of each


def run_own(dlrmbench: Command, data_root: Path, folder: Path, *arguments: object, **options: object) -> Path:
    """Run dlrm_tiny to its first evaluation in processes of its own, and return the folder of the set."""
    done = dlrmbench(
        "run", "dlrm_tiny", "-n", 1, "--timeout", 0.001, "--data", data_root, "--threads", 1, "--seed", 1, "-q",
        "-o", "out", *arguments, **options,
    )  # fmt: skip
    (made,) = folder.glob("out/dlrm_tiny*")
    (made / "said.txt").write_text(done.stdout + done.stderr)
    return made


@pytest.mark.slow
def test_a_clock_that_own_code_bends_is_seen(dlrmbench: Command, data_root: Path, tmp_path: Path) -> None:
    folder = run_own(dlrmbench, data_root, tmp_path, "--implementation", f"{write_own(tmp_path)}:bend")
    said, found = (folder / "said.txt").read_text(), codes_of(folder)
    assert found["RS121"] == "error" and found["RS123"] == "info", said
    assert '; own code: "own.py:bend@' in " ".join(said.split()), said
    assert "; own code: &quot;own.py:bend@" in (folder / "report.html").read_text().replace("&#34;", "&quot;")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("silent", "RS121"), ("late", "RS121"), ("TrainedBefore", "RS133")])
def test_what_own_code_hides_of_its_time_is_seen(
    name: str, code: str, dlrmbench: Command, data_root: Path, tmp_path: Path
) -> None:
    """Events that never come, a run_start that is sent late beside a clock that is bent, batches before the clock."""
    folder = run_own(dlrmbench, data_root, tmp_path, "--implementation", f"{write_own(tmp_path)}:{name}")
    assert codes_of(folder).get(code) == "error", (folder / "said.txt").read_text()


SITE = """
import time
for name in ("monotonic", "perf_counter", "monotonic_ns", "perf_counter_ns"):
    now = getattr(time, name)
    setattr(time, name, lambda now=now, name=name: now() // 2 if name.endswith("ns") else now() / 2)
"""


@pytest.mark.slow
def test_a_sitecustomize_that_bends_all_clocks_is_seen_and_named(
    dlrmbench: Command, data_root: Path, tmp_path: Path
) -> None:
    """Without any own code. It bends the clocks of the command, and of the run, to half their pace."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE)
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{ROOT}"}
    folder = run_own(dlrmbench, data_root, tmp_path, "--timeout", 3600, env=environ)
    found, said = codes_of(folder), (folder / "said.txt").read_text()
    assert found.get("RS121") == "error" and found.get("RS134") == "info", said
    environment = json.loads((folder / "extra" / "run_set.json").read_text())["environment"]
    assert str(tmp_path / "site") in environment["variables"]["PYTHONPATH"]


@pytest.mark.slow
def test_a_finished_run_that_is_removed_and_made_again_is_missed(
    dlrmbench: Command, data_root: Path, tmp_path: Path
) -> None:
    """The first and the last one; before that, what a run's timekeeper saw is removed from every record."""
    folder = run_own(dlrmbench, data_root, tmp_path, "-n", 3, "--timeout", 3600)
    assert "error" not in codes_of(folder).values()
    bare = tmp_path / "bare"
    shutil.copytree(folder, bare)
    for path in bare.glob("extra/run_*/attempt_*/run.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "observed_s": None}))
    assert codes_of(bare)["RS121"] == "error"
    for index in (0, 2):
        cheated = tmp_path / f"cheated_{index}"
        shutil.copytree(folder, cheated)
        shutil.rmtree(cheated / "extra" / f"run_{index}")
        next(cheated.glob(f"results/*/*/result_{index}.txt")).unlink()
        done = dlrmbench("resume", cheated, "-q")
        found = codes_of(cheated)
        assert (cheated / "extra" / f"run_{index}").is_dir(), done.stderr
        assert found.get("RS131") == "error" and ("RS132" in found) is (index == 0), found


@pytest.mark.parametrize(
    ("num_runs", "num_busy"),
    [pytest.param(2, 2, marks=pytest.mark.slow), pytest.param(10, 4, marks=pytest.mark.long)],
)
def test_honest_runs_beside_busy_processes_raise_no_alarm(
    num_runs: int, num_busy: int, dlrmbench: Command, data_root: Path, tmp_path: Path
) -> None:
    """Beside processes that are never idle."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(num_busy)]
    try:
        folder = run_own(dlrmbench, data_root, tmp_path, "-n", num_runs)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    (verdict,) = check_paths([folder], second_opinion=False)
    judged = ("RS121", "RS122", "RS131", "RS132", "RS133")
    alarms = [finding for finding in verdict.findings if finding.code in judged and finding.severity != "info"]
    assert not alarms, alarms


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "base", "division", "expected"),
    [
        ("OtherOptimizer", "Adagrad", "closed", {"HP101": "error"}),
        ("OtherOptimizer", "AdamW", "closed", {"HP101": "error"}),
        ("OtherOptimizer", "AdamW", "open", {}),
        ("Hidden", "AdamW", "closed", {"HP106": "warning"}),
    ],
)
def test_the_log_names_the_optimizers_that_train(
    name: str,
    base: str,
    division: str,
    expected: Mapping[str, str],
    data_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_workers_inside(monkeypatch)
    own = write_own(tmp_path, base)
    done = run_inside(
        tmp_path, "run", "dlrm_tiny", "-n", 1, "--timeout", 0.001, "--implementation", f"{own}:{name}",
        "--division", division, "--data", data_root, "--threads", 1, "-q", "-o", "out",
    )  # fmt: skip
    log = next(tmp_path.glob("out/dlrm_tiny*/results/*/*/result_0.txt"), None)
    assert log is not None, done.stderr
    names = {"OtherOptimizer": "adagrad and own Other", "Hidden": "adagrad"}
    assert read_log(log).value(keys.OPT_NAME) == names[name], done.stderr
    found = codes_of(log.parents[3])
    judged = {code: severity for code, severity in found.items() if code in ("HP101", "HP106", "ST104")}
    assert judged == expected, found


def test_what_is_shipped_is_not_called_own_code() -> None:
    specs = {name: find_model(name) for name in MODELS}
    assert {*MODELS, *(name for spec in specs.values() for name in spec.implementations)} == {*SHIPPED_CODE}


class Subclass(torch.optim.Adagrad):
    pass


def test_optimizers_are_what_their_classes_are_not_what_they_inherit() -> None:
    weight = nn.Parameter(torch.zeros(2, 2))
    options: dict[str, Any] = {"lr": 0.1, "lr_decay": 0.0, "initial_accumulator_value": 0.0, "eps": 1e-8}
    tables = SparseAdagrad([weight], rowwise=True, **options)
    layers = torch.optim.Adagrad([weight], lr=0.1)
    assert name_built("rowwise_adagrad", [tables, layers]) == "rowwise_adagrad"
    assert name_built("adagrad", [tables, layers]) == "rowwise_adagrad and adagrad"
    assert name_built("adagrad", [layers]) == "adagrad"
    assert name_built("adagrad", [Subclass([weight])]) == "own Subclass"
    assert name_built("sgd", [torch.optim.AdamW([weight])]) == "AdamW"
