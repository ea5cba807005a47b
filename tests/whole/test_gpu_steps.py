"""The steps of `make gpu` on emulated GPUs, at tiny sizes: what they would ask a real one must at least run."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from emulated_cuda import emulate_cuda
from findings import Findings, Found, read_found
from gpu_answers import plant_answers
from jobs_on_gpu import TINY
from packages import missing_packages, name_of, prepare_site, read_project, requirements
from packaging.requirements import Requirement
from packaging.version import Version
from places import ROOT
from pytest_run import read_outcomes
from runner import read_results
from setting import Setting
from steps import tune
from waiting import HANG_S
from wheels import environment, fetch, platforms, read_installed

from reference_models.fused import kernel_sizes
from reference_models.fused.kernel_check import ComputedValues
from reference_models.fused.merged_embedding import MergedEmbedding

RunStep = Callable[[str], Found]


@pytest.fixture
def on_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunStep]:
    """Run a step's module on an emulated GPU as if it were real, at tiny sizes; returns what it found."""
    setting = Setting(device="cuda", is_gpu=False, is_full=False, scratch=tmp_path, data=tmp_path / "data")
    path = tmp_path / "findings"

    def run(name: str) -> Found:
        importlib.import_module(f"steps.{name}").run(setting, Findings(path, is_rehearsal=False))
        found = read_found(path, name)
        assert found.problems == []
        return found

    small, capped = (replace(shape, benchmark="dlrm_tiny", row_scale=0.01) for shape in TINY)
    for module in ("throughput", "full_size"):
        monkeypatch.setattr(f"steps.{module}.TINY", (small, capped))
    monkeypatch.setattr("jobs_on_gpu.STEPS_PER_EPOCH", 100)
    with emulate_cuda(monkeypatch, num_gpus=1):
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
        yield run


@pytest.mark.slow
def test_throughput_judges_its_three_claims(on_gpu: RunStep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steps.throughput.CUDA_PRECISIONS", ("fp32",))
    found = on_gpu("throughput")
    assert set(found.judgements) == {"faster", "million", "reading"}
    assert found.judgements["million"].verdict == "disproved", "a CPU's samples per second are not a million"
    rate = found.figures["dcnv2_rows_x0.1 optimized fp32 samples_per_s"]
    assert isinstance(rate, float) and rate > 0
    assert found.figures["dlrm_small reference fp32 peak_gb"] == pytest.approx((1 << 20) / 1e9)


@pytest.mark.slow
def test_batches_on_the_gpu_that_are_refused_leave_one_claim_out(
    on_gpu: RunStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise AttributeError("no such reader")

    monkeypatch.setattr("steps.throughput.CUDA_PRECISIONS", ("fp32",))
    monkeypatch.setattr("steps.throughput.read_from_device", refuse)
    monkeypatch.setattr("steps.throughput.TINY", importlib.import_module("steps.throughput").TINY[1:])
    found = on_gpu("throughput")
    assert found.judgements["reading"].verdict == "not run"
    assert "no such reader" in found.judgements["reading"].how
    assert set(found.judgements) == {"faster", "million", "reading"}


def test_kernels_are_timed_one_by_one_and_one_that_fails_stops_none(
    on_gpu: RunStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("invalid configuration\nof a kernel")

    monkeypatch.setattr(MergedEmbedding, "read", fail)
    monkeypatch.setattr("steps.kernels.profile_step", lambda *args: None)
    monkeypatch.setattr(
        "steps.kernels.build",
        lambda *args, **options: SimpleNamespace(device=torch.device("cuda", 0), train=lambda num_steps: None),
    )
    found = on_gpu("kernels")
    figures = found.figures
    assert found.judgements["kernels"].verdict == "disproved", "an emulated GPU compiles none"
    assert figures["alone: read failed"] == "invalid configuration"
    assert figures["alone: update_static ms"] == pytest.approx(1.0 / 1.0)
    assert "alone: bf16 square 64 ms" in figures and "alone: ids int32 to device (0 MB) ms" in figures


@pytest.mark.slow
@pytest.mark.parametrize(("reserved", "verdict"), [(114e9, "proved"), (116e9, "disproved")])
def test_full_size_is_held_against_what_is_reserved(
    on_gpu: RunStep, monkeypatch: pytest.MonkeyPatch, reserved: float, verdict: str
) -> None:
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device=None: 109e9)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device=None: reserved)
    judged = on_gpu("full_size").judgements["fits"]
    assert judged.verdict == verdict
    assert judged.figure.startswith(f"{reserved / 1e9:.1f} GB reserved, 109.0 allocated, ")


RUN = {
    "status": "success",
    "energy": {"energy_j": 12.5, "not_measured": []},
    "peak_device_bytes": 2_000_000,
    "evaluations": [{"quality": 0.81}],
    "blocks": [{"duration_s": 2.0, "num_samples": 1000}],
}
VALID = {"stdout": '{"verdicts": [{"outcome": "valid"}]}'}


@pytest.mark.parametrize(
    ("record", "checked", "verdict"),
    [
        (RUN, VALID, "proved"),
        ({**RUN, "status": "not_converged"}, VALID, "disproved"),
        ({**RUN, "energy": None}, VALID, "disproved"),
        ({**RUN, "peak_device_bytes": None}, VALID, "disproved"),
        (RUN, {"stdout": '{"verdicts": [{"outcome": "invalid"}]}', "exit_code": 3}, "disproved"),
        (RUN, {"stdout": "", "exit_code": 1}, "disproved"),
    ],
)
def test_a_run_needs_its_target_a_valid_log_joules_and_a_peak(
    on_gpu: RunStep, monkeypatch: pytest.MonkeyPatch, record: dict[str, Any], checked: dict[str, Any], verdict: str
) -> None:
    files = {"set/results/system/dlrm/result_0.txt": 0, "set/extra/run_0/attempt_0/run.json": record}
    plant_answers(monkeypatch, {"run": {"files": files}, "check": checked})
    assert on_gpu("run").judgements["target"].verdict == verdict


def profile_of(phases: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """What the command answers and leaves: a step of 1 s, by phase its seconds and share of its limit."""
    record = {
        "step": {"measured": {"step_s": 0.9, "told_step_s": 1.0}},
        "phases": [
            {"phase": name, "measured": {"time_s": took_s}, "computed": {"ceiling_fraction": fraction}}
            for name, (took_s, fraction) in phases.items()
        ],
        "ceilings": {
            "measured": {"square": [{"n": 64, "flop_per_s": {"best": 1e12}}], "copies": [], "transfer": None}
        },
    }
    return {"profile": {"files": {"set/extra/profile.json": record}}}


@pytest.mark.parametrize(
    ("phases", "verdict"),
    [
        ({"loss": (0.5, 0.9), "data": (0.42, 0.1), "other": (0.08, 0.0)}, "proved"),
        ({"loss": (0.5, 0.9), "data": (0.3, 0.1), "other": (0.2, 0.0)}, "disproved"),
        ({"data": (0.05, 0.1), "graph_replay": (0.95, 0.9)}, "disproved"),
        ({"loss": (0.6, 0.9), "data": (0.5, 0.1)}, "disproved"),
        ({"loss": (0.5, 1.2), "data": (0.5, 0.1)}, "disproved"),
    ],
    ids=["named", "the rest", "a replay as a whole", "more than the step", "faster than its limit"],
)
def test_phases_must_name_the_step_below_their_limits(
    on_gpu: RunStep, monkeypatch: pytest.MonkeyPatch, phases: dict[str, tuple[float, float]], verdict: str
) -> None:
    plant_answers(monkeypatch, profile_of(phases))
    assert on_gpu("profile").judgements["phases"].verdict == verdict


@pytest.mark.parametrize(
    ("stderr", "exit_code", "verdict"),
    [
        ("dlrmbench: error: device 'cuda:99': there are 1 GPUs", 2, "proved"),
        ("Traceback (most recent call last):\nerror: x", 2, "disproved"),
        ("dlrmbench: error: no", 1, "disproved"),
        ("", 2, "disproved"),
    ],
)
def test_an_error_is_one_line_with_its_exit_code(
    on_gpu: RunStep, monkeypatch: pytest.MonkeyPatch, stderr: str, exit_code: int, verdict: str
) -> None:
    plant_answers(monkeypatch, {"run": {"stderr": stderr, "exit_code": exit_code}})
    assert on_gpu("errors").judgements["errors"].verdict == verdict


def test_a_claim_is_judged_once_all_of_its_tests_have_ended_or_one_failed(tmp_path: Path) -> None:
    from steps.tests import judge

    names = [f"test_cuda_trains_like_the_cpu_x[{precision}]" for precision in ("fp32", "bf16")]
    names.append("test_tables_of_more_than_two_to_the_31_numbers[real]")
    lines = [json.dumps({"collected": names})]
    lines += [json.dumps({"name": names[0], "outcome": "passed", "words": "passed"})]
    path = tmp_path / "findings"

    def verdicts() -> dict[str, str]:
        judge(read_outcomes("\n".join([*lines, '{"name": "cut'])), Findings(path, is_rehearsal=False))
        return {name: judged.verdict for name, judged in read_found(path, "tests").judgements.items()}

    assert verdicts()["agrees"] == "not run"
    lines.append(json.dumps({"name": names[1], "outcome": "passed", "words": "passed"}))
    assert verdicts()["agrees"] == "proved"
    lines.append(json.dumps({"name": names[2], "outcome": "failed", "words": "CUDA error"}))
    assert verdicts()["large"] == "disproved"
    assert verdicts()["equal"] == "not run"


def test_what_a_python_lacks_is_read_from_our_metadata_and_the_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wheels of a made-up index: what is there is left out, what a wheel requires is fetched too, torch never."""
    index: dict[str, tuple[str, list[str]]] = {
        "a": ("2.0", ["b>=1 ; python_version >= '3.12'", "c ; extra == 'all'", "torch"]),
        "b": ("1.5", ["d<3"]),
        "d": ("2.9", []),
        "old": ("4.0", []),
    }
    downloaded: list[str] = []

    def download(requirement: str, folder: Path, options: object) -> Path:
        downloaded.append(requirement)
        name = name_of(requirement)
        path = folder / f"{name}-{index[name][0]}-py3-none-any.whl"
        path.write_text("")
        return path

    monkeypatch.setattr("wheels.download", download)
    wanted = [Requirement(line) for line in ("a>=2", "numpy>=2", "old>=3", "torch>=2.11", "d>1")]
    monkeypatch.setattr(
        "wheels.requires", lambda wheel: [Requirement(line) for line in index[wheel.name.partition("-")[0]][1]]
    )
    installed = read_installed(["numpy==2.5.2", "old 2.0", "Foo_Bar, baz # both"])
    assert installed == {"numpy": Version("2.5.2"), "old": Version("2.0"), "foo-bar": None, "baz": None}
    options: Any = SimpleNamespace(python="3.12", machine="x86_64", glibc="2.28")
    assert set(fetch(wanted, installed, tmp_path, options)) == {"a", "old", "b", "d"}
    assert downloaded == ["a>=2", "old>=3", "d>1", "b>=1"]
    options.python = "3.11"
    assert set(fetch(wanted[:1], installed, tmp_path, options)) == {"a"}, "markers are those of that Python"


def test_tags_run_from_the_newest_glibc_to_the_oldest() -> None:
    tags = platforms("2.18", "x86_64")
    assert tags[:3] == ["manylinux_2_18_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"]
    assert tags[-1] == "linux_x86_64" and len(tags) == len(set(tags))
    assert environment("3.12", "x86_64")["extra"] == ""


def test_a_bare_python_is_told_apart_from_one_that_has_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {name_of(line) for line in requirements(read_project(ROOT))}
    assert {"msgspec", "mlperf-logging", "tomli-w", "pytest", "hypothesis"} <= names and "torch" not in names
    assert prepare_site(ROOT, tmp_path / "site") == ""
    assert missing_packages(ROOT, tmp_path / "site") == []
    monkeypatch.setattr("sys.path", [])
    assert {"torch", "msgspec"} <= set(missing_packages(ROOT, tmp_path / "site"))
    (described,) = (tmp_path / "site").glob("dlrmbench-*.dist-info/METADATA")
    assert "Requires-Dist: msgspec" in described.read_text()


COUNTS = ((500, 512, 400), (30_000, 1024, 400), (300_000, 2048, 400), (14_000_000, 65536, 3456))
WANTED = {
    "LEAST_BLOCK": 32, "MOST_BLOCK": 512, "UPDATE_PROGRAMS": 8, "PIECES": 32, "TILE": 16, "MOST_SAMPLES": 32,
    "CROSS_PROGRAMS": 16, "COLUMNS": 512, "WARPS": 4,
}  # fmt: skip


def planted_times(best_by: dict[str, int], *, slower: float) -> "tune.Times":
    """Sizes that `best_by` would choose take 1 s, all others `slower` times that for each doubling between them."""
    times: tune.Times = {}
    for kernel, axes in tune.GRID.items():
        times[kernel] = {}
        for counts in COUNTS:
            names = ("num_lookups", "num_samples", "num_columns")
            with mock.patch.multiple(kernel_sizes, **best_by):
                best = kernel_sizes.choose_sizes(**dict(zip(names, counts, strict=True)), num_multiprocessors=132)
            times[kernel][counts] = {
                sizes: slower
                ** sum(abs(math.log2(size / getattr(best, name))) for name, size in zip(axes, sizes, strict=True))
                for sizes in product(*axes.values())
            }
    return times


def test_tune_finds_the_constants_whose_sizes_are_fastest_at_every_batch() -> None:
    found = tune.choose_constants(planted_times(WANTED, slower=1.5), 132)
    assert found.keys() == WANTED.keys()
    times = planted_times(WANTED, slower=1.5)
    for kernel, axes in tune.CONSTANTS.items():
        cost = tune.cost_of(times[kernel], kernel, {name: found[name] for name in axes}, 132)
        assert cost == pytest.approx(0), f"{kernel}: each batch has its fastest sizes"
    assert {name: found[name] for name in ("PIECES", "TILE", "COLUMNS", "WARPS")} == {
        "PIECES": 32,
        "TILE": 16,
        "COLUMNS": 512,
        "WARPS": 4,
    }


def test_tune_leaves_the_products_constants_where_little_is_gained_or_nothing_was_timed() -> None:
    today = {name: getattr(kernel_sizes, name) for axes in tune.CONSTANTS.values() for name in axes}
    assert today.keys() == WANTED.keys() and today != WANTED
    assert tune.choose_constants(planted_times(WANTED, slower=1.001), 132) == today
    nothing: tune.Times = {kernel: {counts: {} for counts in COUNTS} for kernel in tune.GRID}
    assert tune.choose_constants(nothing, 132) == today


def test_tune_times_no_sizes_whose_numbers_are_wrong_or_that_do_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel of one size: 2 is wrong, 8 does not run."""

    def compute(sizes: Any, *, checks: bool = True) -> Callable[[], list[Any]]:
        def call() -> list[Any]:
            if sizes is not None and sizes.tile == 8:
                raise RuntimeError("out of resource: shared memory\nof a kernel")
            wrong = 2.0 if sizes is not None and sizes.tile == 2 else 1.0
            return [ComputedValues(torch.tensor([wrong]))] if checks else []

        return call

    monkeypatch.setattr(tune, "GRID", {"read": {"tile": (2, 4, 8)}})
    monkeypatch.setattr(tune, "prepare", lambda shape, device: (COUNTS[0], {"read": compute}))
    monkeypatch.setattr(tune, "repeat", lambda call, device, **budget: call() or [0.5])
    times: tune.Times = {"read": {}}
    setting = Setting(device="cpu", is_gpu=False, is_full=True, scratch=tmp_path)
    path = tmp_path / "findings"
    findings = Findings(path, is_rehearsal=False)
    tune.time_kernels(TINY[0], torch.device("cpu"), setting, findings, times)
    assert times == {"read": {COUNTS[0]: {(4,): 0.5}}}
    figures = read_found(path, "tune").figures
    assert str(figures["read B 64 2 ms"]).startswith("wrong: ")
    assert figures["read B 64 8 ms"] == "out of resource: shared memory" and figures["read B 64 4 ms"] == 500


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton's interpreter")
def test_tune_is_rehearsed_by_the_interpreter_whose_numbers_are_right(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, str(ROOT / "tests" / "gpu"), "tune", "--out", str(out), "--within", str(HANG_S)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    step = read_results(out)["tune"]
    assert (done.returncode, step["ended"]) == (0, "done"), done.stderr
    timed = [value for name, value in step["figures"].items() if " B " in name]
    assert len(timed) == 2 * (3 + 4 + 2 + 8) and all(isinstance(value, float) for value in timed)
    kept = json.loads(out.with_suffix(".sizes.json").read_text())
    assert kept["is_rehearsal"] and kept["constants"].keys() == WANTED.keys()
    assert "# TILE = " in done.stdout
