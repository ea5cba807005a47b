"""Own code in the process that trains: a clock that it bends is seen, and optimizers are named as they are."""

import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from command import Command
from inside import run_inside, use_workers_inside
from torch import nn

from harness.launch.run_clock import RUN_START, RUN_STOP, RunClock
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

def bend(spec, world):
    now = time.monotonic_ns
    time.monotonic_ns = lambda: now() // 100
    class Bent(ReferenceWorkload):
        def train(self, num_steps):
            time.sleep(1.5)
            return super().train(num_steps)
    return Bent(spec, world)
'''


def write_own(folder: Path, base: str = "Adagrad") -> Path:
    path = folder / "own.py"
    path.write_text(OWN.replace("{base}", base))
    return path


def codes_of(folder: Path) -> dict[str, str]:
    (verdict,) = check_paths([folder], second_opinion=False)
    return {finding.code: finding.severity for finding in verdict.findings}


@pytest.mark.slow
def test_a_clock_that_own_code_bends_is_seen(dlrmbench: Command, data_root: Path, tmp_path: Path) -> None:
    own = write_own(tmp_path)
    done = dlrmbench(
        "run", "dlrm_tiny", "-n", 1, "--timeout", 0.001, "--implementation", f"{own}:bend",
        "--data", data_root, "--threads", 1, "-q", "-o", "out",
    )  # fmt: skip
    (folder,) = tmp_path.glob("out/dlrm_tiny*")
    found = codes_of(folder)
    assert found["RS121"] == "error" and found["RS123"] == "info", (done.stdout, done.stderr)
    assert '; own code: "own.py:bend@' in " ".join(done.stdout.split()), done.stdout
    assert "; own code: &quot;own.py:bend@" in (folder / "report.html").read_text().replace("&#34;", "&quot;")


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
    name: str, base: str, division: str, expected: Mapping[str, str], data_root: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    use_workers_inside(monkeypatch)
    own = write_own(tmp_path, base)
    done = run_inside(
        tmp_path, "run", "dlrm_tiny", "-n", 1, "--timeout", 0.001, "--implementation", f"{own}:{name}",
        "--division", division, "--data", data_root, "--threads", 1, "-q", "-o", "out",
    )  # fmt: skip
    (log,) = tmp_path.glob("out/dlrm_tiny*/results/*/*/result_0.txt")
    names = {"OtherOptimizer": "adagrad and own Other", "Hidden": "adagrad"}
    assert read_log(log).value(keys.OPT_NAME) == names[name], done.stderr
    found = codes_of(log.parents[3])
    judged = {code: severity for code, severity in found.items() if code in ("HP101", "HP106", "ST104")}
    assert judged == expected, found


def test_what_is_shipped_is_not_called_own_code() -> None:
    specs = {name: find_model(name) for name in MODELS}
    assert {*MODELS, *(name for spec in specs.values() for name in spec.implementations)} == {*SHIPPED_CODE}


def test_a_run_that_sends_its_lines_again_is_not_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, seconds = RunClock(lambda event: None), iter(range(10))
    monkeypatch.setattr("harness.launch.run_clock.time", SimpleNamespace(monotonic=lambda: float(next(seconds))))
    for name in (RUN_START, RUN_STOP, RUN_START, RUN_STOP):
        clock.take({"event": name})
    assert clock.run_s == 3.0


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


def test_a_run_is_stamped_where_its_two_lines_arrive() -> None:
    others: list[str] = []
    with RunClock(lambda event: others.append(event["event"])) as clock:
        for name in ("start", RUN_START, "train", RUN_STOP, "hash"):
            clock.take({"event": name})
    assert others == ["start", "train", "hash"]
    assert clock.run_s is None or clock.run_s >= 0


@pytest.mark.parametrize("sent", [(RUN_START,), (RUN_STOP,), ()])
def test_a_run_without_both_lines_has_no_time(sent: tuple[str, ...]) -> None:
    with RunClock(lambda event: None) as clock:
        for name in sent:
            clock.take({"event": name})
    assert clock.run_s is None


def test_a_process_that_was_held_up_times_no_run() -> None:
    waiting = threading.Event()
    with RunClock(lambda event: waiting.wait(0.6) and None) as clock:
        for name in (RUN_START, "train", RUN_STOP):
            clock.take({"event": name})
    assert clock.run_s is None
