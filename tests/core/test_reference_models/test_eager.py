"""torch.optim without torch's compiler: the same groups, state and numbers, and nothing of the compiler imported."""

import json
import runpy
import subprocess
import sys
from inspect import unwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from toy_clicks import flatten, is_same, write_dataset
from waiting import HANG_S

from reference_models.training import eager

pytestmark = pytest.mark.numeric

STEPS = 4
SETTINGS: list[tuple[str, dict[str, float]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.01, "initial_accumulator_value": 0.2, "eps": 1e-8}),
]


def make(source: Any, name: str, options: dict[str, float]) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 2))
    return model, getattr(source, name)(model.parameters(), **options)


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    generator = torch.Generator().manual_seed(2)
    for _ in range(STEPS):
        x = torch.randn(7, 5, generator=generator)
        optimizer.zero_grad()
        model(x).pow(2).sum().backward()
        optimizer.step()


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_groups_state_and_numbers_are_torchs(name: str, options: dict[str, float]) -> None:
    (ours, our_optimizer), (theirs, their_optimizer) = (
        make(source, name, options) for source in (eager, torch.optim)
    )
    for model, optimizer in ((ours, our_optimizer), (theirs, their_optimizer)):
        train(model, optimizer)
    before = make(eager, name, options)[0]
    assert is_same(flatten(ours.state_dict()), flatten(theirs.state_dict()))
    assert not is_same(flatten(ours.state_dict()), flatten(before.state_dict()))
    found, expected = our_optimizer.state_dict(), their_optimizer.state_dict()
    assert found["param_groups"] == expected["param_groups"]
    assert found["state"].keys() == expected["state"].keys()
    assert is_same(flatten(found), flatten(expected))
    assert our_optimizer.defaults == their_optimizer.defaults


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_each_continues_from_the_others_state(name: str, options: dict[str, float]) -> None:
    ends = []
    for begins, goes_on in ((eager, torch.optim), (torch.optim, eager)):
        model, optimizer = make(begins, name, options)
        train(model, optimizer)
        other = make(goes_on, name, options)
        other[0].load_state_dict(model.state_dict())
        other[1].load_state_dict(optimizer.state_dict())
        train(*other)
        ends.append(flatten([other[0].state_dict(), other[1].state_dict()]))
    assert is_same(*ends)


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_a_step_leaves_no_graph_behind_calls_its_hooks_and_returns_its_closures_loss(name: str) -> None:
    model, optimizer = make(eager, name, {"lr": 0.1})
    called = []
    optimizer.register_step_post_hook(lambda *_: called.append("after"))
    train(model, optimizer)
    assert called == ["after"] * STEPS
    assert torch.is_grad_enabled()
    assert all(parameter.is_leaf for parameter in model.parameters())
    assert optimizer.step(lambda: 3.0) == 3.0


def test_methods_that_torch_does_not_wrap_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a version of torch that has dropped its wrappers: the module imports, and has torch's methods."""
    names = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
    for name in names:
        monkeypatch.setattr(torch.optim.Optimizer, name, unwrap(getattr(torch.optim.Optimizer, name)))
    made = runpy.run_path(eager.__file__)["EagerOptimizer"]
    assert all(getattr(made, name) is getattr(torch.optim.Optimizer, name) for name in names)


TRAINS_ONCE = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from toy_clicks import spec_maker
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation
found = {}
for name in sys.argv[3:]:
    implementation, opt_name = name.split()
    spec = spec_maker(Path(sys.argv[2]))(train={"opt_name": opt_name})
    workload = find_implementation("dlrm", implementation).load(spec, SingleProcess())
    workload.build()
    assert workload.train(5).num_steps == 5
    workload.evaluate()
    workload.hyperparameters()
    found[name] = sorted({"sympy", "torch._dynamo", "torch._inductor"} & set(sys.modules))
print(json.dumps(found))
"""
TRAINED = [f"{name} {opt}" for name in ("optimized", "reference") for opt in ("sgd", "adagrad", "rowwise_adagrad")]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What of the compiler one process has imported after each of the trainings, one after another."""
    folder = tmp_path_factory.mktemp("clicks")
    write_dataset(folder)
    builders = str(Path(write_dataset.__code__.co_filename).parent)
    done = subprocess.run(
        [sys.executable, "-c", TRAINS_ONCE, builders, str(folder), *TRAINED],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_building_training_and_evaluating_imports_no_compiler(name: str, imported: dict[str, list[str]]) -> None:
    assert imported[name] == []
