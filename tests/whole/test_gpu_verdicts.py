"""Each claim of `make gpu` can fail: its step is given values that hold and values that do not, and judges both.

And what all steps share: their time, and the words of `make`.
"""

import importlib
import importlib.util
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from claims import BY_NAME
from findings import Findings, Found, read_found
from gpu_answers import plant_answers
from jobs_on_gpu import CAPPED, SMALL
from places import ROOT
from pytest_run import Outcome
from runner import StepResult, leave_out, read_results, run_all
from setting import Setting
from steps import START_S, STEPS, WITHIN_S, chosen
from steps import kernels as kernels_step
from steps.errors import run as run_errors
from steps.tests import CLAIMED, FILES
from steps.throughput import EAGER, judge_faster
from waiting import HANG_S

from reference_models.fused import merged_embedding

pytestmark = pytest.mark.numeric

SYSTEM = {"gpu": "Emulated", "driver": "1", "torch": "2"}
Plant = Callable[[pytest.MonkeyPatch, str], None]
"""Given what is to be wrong, or nothing."""


def names_of_tests() -> list[str]:
    """The tests that the step of that name runs, by their names in the source."""
    sources = [
        (ROOT / "tests" / "core" / "test_reference_models" / name).read_text(encoding="utf-8") for name in FILES
    ]
    return [name for source in sources for name in re.findall(r"^def (test_\w+)", source, flags=re.MULTILINE)]


def plant_tests(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    def run_tests(paths: object, marker: str, setting: object, on_outcomes: Callable[[list[Outcome]], None]) -> int:
        fails = re.compile(CLAIMED[wrong]) if wrong else None
        names = [name for name in names_of_tests() if any(re.match(pattern, name) for pattern in CLAIMED.values())]
        on_outcomes(
            [
                Outcome(name, "failed" if fails is not None and fails.match(name) else "passed", "planted")
                for name in names
            ]
        )
        return 1 if wrong else 0

    monkeypatch.setattr("steps.tests.run_tests", run_tests)


def plant_throughput(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    rates = {"optimized": 1.1e6 if wrong == "million" else 1.3e6, EAGER: 0.9e6, "reference": 0.3e6}
    if wrong == "faster":
        rates["reference"] = 1.4e6
    on_device = 1.2 if wrong == "reading" else 1.05

    def build(shape: Any, opened: Any, implementation: str, **runtime: Any) -> Any:
        assert runtime.get("graph") in (None, "off")
        return SimpleNamespace(rate=rates[EAGER if "graph" in runtime else implementation])

    def read_from_device(workload: Any, num_batches: int) -> None:
        workload.rate *= on_device

    monkeypatch.setattr("steps.throughput.open_once", lambda shape: None)
    monkeypatch.setattr("steps.throughput.build", build)
    monkeypatch.setattr("steps.throughput.read_from_device", read_from_device)
    monkeypatch.setattr("steps.throughput.measure", lambda workload, setting: {"samples_per_s": workload.rate})


def plant_kernels(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setattr(
        "steps.kernels.build",
        lambda *args, **options: SimpleNamespace(device=torch.device("cpu"), train=lambda num_steps: None),
    )
    for name in ("profile_step", "note"):
        monkeypatch.setattr(f"steps.kernels.{name}", lambda *args: None)
    monkeypatch.setattr("steps.kernels.kernel_problem", lambda *args: None)
    monkeypatch.setattr("steps.kernels.batch_distance", lambda *args: 1.5 if wrong else 0.5)
    monkeypatch.setattr("steps.kernels.update_calls", lambda *args, **options: {})


def plant_nccl(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    """Products take 1 s and the gather behind them 0.1 s; counted until it was queued, that is next to nothing."""
    times = iter((1.0, 0.1))

    class Counter(nullcontext[None]):
        def __init__(self, *args: object) -> None:
            super().__init__()
            self.duration_s = {"all_gather": 0.001 if wrong == "collectives" else 0.11}

    monkeypatch.setattr("steps.nccl.CollectiveCounter", Counter)
    monkeypatch.setattr("steps.nccl.elapsed_s", lambda call, device: next(times))
    monkeypatch.setattr("steps.nccl.rendezvous", lambda num_ranks: None)
    monkeypatch.setattr("steps.nccl.join", lambda *args: SimpleNamespace(leave=lambda: None))
    monkeypatch.setattr("steps.nccl.dist.all_gather_into_tensor", lambda received, sent: None)
    monkeypatch.setattr("steps.nccl.find_spec", lambda name: name)
    plant_answers(monkeypatch, {"run": {"exit_code": 4 if wrong == "torchrec" else 0, "stderr": "not converged"}})


def plant_full_size(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    workload = SimpleNamespace(
        device=None,
        synchronize=lambda: None,
        train=lambda num_steps: SimpleNamespace(num_samples=64),
        peak_device_bytes=lambda: 109 * 10**9,
    )
    monkeypatch.setattr("steps.full_size.build", lambda *args, **options: workload)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: (116 if wrong else 114) * 10**9)


def plant_profile(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    named_s = 0.85 if wrong else 0.95
    phases = [
        {"phase": name, "measured": {"time_s": took_s}, "computed": {"ceiling_fraction": 0.5}}
        for name, took_s in (("loss", named_s), ("other", 1 - named_s))
    ]
    ceilings = {"square": [], "copies": [], "transfer": None}
    record = {"step": {"measured": {"step_s": 1.0, "told_step_s": 1.0}}, "phases": phases}
    content = record | {"ceilings": {"measured": ceilings}}
    plant_answers(monkeypatch, {"profile": {"files": {"set/extra/profile.json": content}}})


def plant_run(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    record = {
        "status": "success",
        "energy": {"energy_j": 12.5},
        "peak_device_bytes": 0 if wrong else 2_000_000,
        "evaluations": [{"quality": 0.81}],
        "blocks": [{"duration_s": 2.0, "num_samples": 1000}],
    }
    files = {"set/results/system/dlrm/result_0.txt": 0, "set/extra/run_0/attempt_0/run.json": record}
    valid = {"stdout": '{"verdicts": [{"outcome": "valid"}]}'}
    plant_answers(monkeypatch, {"run": {"files": files}, "check": valid})


def plant_errors(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    said = {"exit_code": 1 if wrong else 2, "stderr": "dlrmbench: error: device 'cuda:99': there is 1 GPU"}
    plant_answers(monkeypatch, {"run": said})


PLANTS: dict[str, Plant] = {
    "tests": plant_tests,
    "throughput": plant_throughput,
    "kernels": plant_kernels,
    "full_size": plant_full_size,
    "profile": plant_profile,
    "run": plant_run,
    "errors": plant_errors,
    "nccl": plant_nccl,
}


def found_by(step: str, tmp_path: Path) -> Found:
    setting = Setting(device="cpu", is_gpu=False, is_full=False, scratch=tmp_path, data=tmp_path / "data")
    path = tmp_path / "findings"
    importlib.import_module(f"steps.{step}").run(setting, Findings(path, is_rehearsal=False))
    return read_found(path, step)


@pytest.mark.parametrize("claim", BY_NAME)
def test_a_claim_is_disproved_by_what_contradicts_it_and_by_nothing_else(
    claim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = BY_NAME[claim].step
    for wrong, verdict in (("", "proved"), (claim, "disproved")):
        PLANTS[step](monkeypatch, wrong)
        (tmp_path / "findings").unlink(missing_ok=True)
        verdicts = {name: judged.verdict for name, judged in found_by(step, tmp_path).judgements.items()}
        expected = {each.name: "proved" for each in BY_NAME.values() if each.step == step}
        assert verdicts == expected | {claim: verdict}
    assert {claim.step for claim in BY_NAME.values()} <= {each.name for each in STEPS if each.runs == "always"}


@pytest.mark.parametrize(
    ("eager", "small", "verdict"),
    [
        (0.5e6, 0.2e6, "proved"),
        (2e6, 0.2e6, "proved"),
        (0.5e6, 0.4e6, "disproved"),
    ],
    ids=["slower", "faster at full shape, where launching hides", "faster at a small batch"],
)
def test_a_captured_step_must_beat_an_eager_one_where_launching_counts(
    tmp_path: Path, eager: float, small: float, verdict: str
) -> None:
    rates = {
        (CAPPED.name, "optimized", "bf16"): 1e6,
        (CAPPED.name, EAGER, "bf16"): eager,
        (CAPPED.name, "reference", "bf16"): 0.1e6,
        (SMALL.name, "optimized", "bf16"): 0.3e6,
        (SMALL.name, EAGER, "bf16"): small,
        (SMALL.name, "reference", "bf16"): 0.1e6,
    }
    path = tmp_path / "findings"
    judge_faster(Findings(path, is_rehearsal=False), rates)
    judged = read_found(path, "throughput").judgements["faster"]
    assert judged.verdict == verdict
    assert f"{1e6 / eager:.2f} times the eager {CAPPED.name}" in judged.figure
    large = {key: rate for key, rate in rates.items() if key[0] == CAPPED.name}
    judge_faster(Findings(path, is_rehearsal=False), large)
    judged = read_found(path, "throughput").judgements["faster"]
    assert judged.verdict == "not run" and f"but {SMALL.name}, whose eager steps decide" in judged.how


@pytest.mark.parametrize("spoilt", ["", "weights", "sums", "bags", "one row"])
def test_a_batch_by_kernels_is_held_to_every_row_of_the_plain_form(
    spoilt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By operators that compute what the kernels do, then with one of their results wrong."""
    split = SimpleNamespace(num_embeddings=(40, 1, 3000), multi_hot=(1, 3, 2))

    def read(rows: torch.Tensor, limits: torch.Tensor, weight: torch.Tensor, size: int, *others: Any) -> torch.Tensor:
        edges = limits.tolist()
        by_sample = rows.view(size, -1).long()
        bags = [weight[by_sample[:, start:stop]].sum(1) for start, stop in pairwise(edges)]
        return torch.stack(bags, dim=1).to(others[0]) * (0 if spoilt == "bags" else 1)

    def update(
        ordered: torch.Tensor, order: torch.Tensor, bags: torch.Tensor, gradients: torch.Tensor,
        weight: torch.Tensor, state: torch.Tensor, rate: torch.Tensor, eps: float, *others: Any,
    ) -> None:  # fmt: skip
        sums = torch.zeros_like(weight)
        sums.index_add_(0, ordered, gradients[order // len(bags), bags[order % len(bags)].long()].float())
        state += sums.square().mean(1, keepdim=True)
        step = rate * sums / (state.sqrt() + eps)
        if spoilt == "weights":
            step /= 2
        if spoilt == "sums":
            state.zero_()
        if spoilt == "one row":  # which no lookup names
            step[(sums == 0).all(1).nonzero()[-1]] = 1e-3
        weight -= step

    monkeypatch.setattr(merged_embedding, "read_bags", read)
    monkeypatch.setattr(merged_embedding, "update_sorted", update)
    monkeypatch.setattr(kernels_step, "ROWS_AT_ONCE", 1000)
    torch.manual_seed(0)
    indices = torch.randint(0, 3000, (64, 6)) % torch.tensor([40, 1, 1, 1, 3000, 3000])
    batch = SimpleNamespace(indices=indices, labels=torch.zeros(64))
    distance = kernels_step.batch_distance(batch, split, torch.device("cpu"))
    assert distance > 10 if spoilt else distance <= 1


@pytest.mark.parametrize("starved", ["", "run", "throughput", "profile"])
def test_each_command_is_starved_and_answers_for_itself(
    starved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dlrmbench(setting: Setting, verb: str, *arguments: object, **environ: str) -> Any:
        words = [verb, *map(str, arguments)]
        is_wrong = starved in words[-1:]
        code = 2 if "cuda:99" in words else 1 if is_wrong else 9
        return SimpleNamespace(returncode=code, stderr="dlrmbench: error: no memory", stdout="")

    monkeypatch.setattr(Setting, "dlrmbench", dlrmbench)
    monkeypatch.setattr("steps.errors.held", lambda left_bytes: nullcontext())
    monkeypatch.setattr("steps.errors.starve_capture", lambda: "")
    path = tmp_path / "findings"
    run_errors(
        Setting(device="cuda", is_gpu=True, is_full=True, scratch=tmp_path), Findings(path, is_rehearsal=False)
    )
    judged = read_found(path, "errors").judgements["errors"]
    assert judged.verdict == ("disproved" if starved else "proved")
    assert judged.figure.startswith(f"{4 if starved else 5} of 5 cases") and starved in judged.figure


def test_each_claim_of_tests_has_tests_of_its_own() -> None:
    for pattern in CLAIMED.values():
        assert [name for name in names_of_tests() if re.match(pattern, name)]


def test_what_a_gpu_runs_fits_into_its_time_and_the_rest_is_asked_for_by_name() -> None:
    order = ["facts", "tests", "throughput", "kernels", "full_size", "profile", "run", "errors", "nccl"]
    on_gpu = chosen((), is_gpu=True)
    assert [each.name for each in on_gpu] == order
    assert START_S + sum(each.limit_s for each in on_gpu) <= WITHIN_S == 540
    assert {each.name: each.limit_s for each in on_gpu}["kernels"] == 100
    assert [each.name for each in chosen((), is_gpu=False)] == [*order, "bytes", "guards"]
    assert [each.name for each in chosen(["tune", "guards", "facts"], is_gpu=True)] == ["facts", "guards", "tune"]
    assert all(each.limit_s + START_S <= WITHIN_S for each in STEPS)


def test_a_step_has_its_limit_and_what_those_before_it_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of its own: two steps take 10 s and 40 s, the third all that it is given."""
    now, given = [0.0], []

    def take(name: str, command: object, *, limit_s: float, needs_s: float, **others: object) -> StepResult:
        given.append((name, limit_s, needs_s))
        now[0] += min({"facts": 10.0, "tests": 40.0}.get(name, math.inf), limit_s)
        return replace(leave_out(name, "", SYSTEM), ended="done")

    monkeypatch.setattr("runner.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("runner.run_step", take)
    results = run_all(
        [("facts", 20.0), ("tests", 30.0), ("full_size", 90.0), ("run", 50.0), ("nccl", 20.0)],
        lambda name: [],
        path=tmp_path / "gpu.json",
        environ={},
        system=SYSTEM,
        within_s=120.0,
        before={},
        why_left_out={"full_size": "too small a GPU"},
        on_result=lambda result: None,
    )
    assert given == [("facts", 20.0, 20.0), ("tests", 40.0, 30.0), ("run", 50.0, 50.0), ("nccl", 20.0, 20.0)]
    assert now[0] == 120.0 and results["full_size"]["ended"] == "left out"


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_hands_on_steps_file_and_time() -> None:
    def asked(*words: str) -> str:
        options = ["make", "-n", "-C", str(ROOT), "gpu", "PYTHON=py", *words]
        return subprocess.run(options, capture_output=True, text=True, check=True).stdout

    given = asked("STEP=tests errors", "OUT=/a folder/one.json", "WITHIN=300")
    assert 'py tests/gpu tests errors --out "/a folder/one.json" --within 300\n' in given
    assert [line.split() for line in asked().splitlines() if "tests/gpu" in line] == [["py", "tests/gpu"]]


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("torchrec") is None, reason="needs torchrec")
def test_without_a_gpu_all_is_rehearsed_and_nothing_proved(tmp_path: Path) -> None:
    """Every step but `tests`, from the command to the file; every verdict says why it is none."""
    out = tmp_path / "gpu.json"
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    names = [each.name for each in chosen((), is_gpu=False) if each.name != "tests"]
    words = [sys.executable, str(ROOT / "tests" / "gpu"), *names, "--out", str(out), "--within", str(10 * HANG_S)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("no GPU (") and "0 proved, 0 disproved, 15 not run of 15 claims" in done.stdout
    assert done.stdout.count("rehearsed without a GPU at tiny sizes") == 15 - done.stdout.count("step tests was not")
    assert {name: found["ended"] for name, found in read_results(out).items()} == dict.fromkeys(names, "done")
    assert done.stdout.endswith(f"{out}\n")
