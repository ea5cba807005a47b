"""Each rank computes on a GPU of its own, and what it captures and times is there: on emulated GPUs."""

from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from emulated_cuda import EmulatedCUDA, emulate_cuda
from toy_clicks import MakeSpec

from harness.measure.profile.measure_ceilings import repeat
from harness.measure.profile.steps import Timeline
from harness.measure.refusals import refuse_device
from reference_models.config.sections import parse_runtime
from reference_models.distributed import process_group
from reference_models.process.errors import DeviceError
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation
from reference_models.training.devices import describe_gpu, list_gpus, local_device, use_device
from reference_models.training.metrics import roc_auc


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedCUDA]:
    with emulate_cuda(monkeypatch, num_gpus=4) as emulated:
        yield emulated


def test_each_rank_of_a_machine_gets_the_gpu_of_its_local_rank(gpus: EmulatedCUDA) -> None:
    found = [local_device("cuda", 8, {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "4"}) for rank in range(4)]
    assert found == [torch.device("cuda", rank) for rank in range(4)]
    assert local_device("cuda", 2, {}) == torch.device("cuda", 0), "one rank on each of two machines"
    assert local_device("cuda:3", 1, {"LOCAL_RANK": "1"}) == torch.device("cuda", 3)
    assert local_device("cpu", 4, {"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4"}) == torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "environ", "message"),
    [
        ("cuda", {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "5"}, r"5 ranks on this machine, but 4 GPUs.*fewer ranks"),
        ("cuda", {"LOCAL_RANK": "4"}, r"5 ranks on this machine, but 4 GPUs"),
        ("cuda:1", {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}, r"'cuda:1': 2 ranks .* 1 GPU for.*--device cuda,"),
        ("cuda", {"LOCAL_RANK": "x"}, r"LOCAL_RANK is 'x' in the environment: expected a whole number"),
        ("cuda", {"LOCAL_WORLD_SIZE": ""}, r"LOCAL_WORLD_SIZE is '' in the environment: expected a whole number"),
    ],
)
def test_ranks_that_would_share_a_gpu_are_refused(
    gpus: EmulatedCUDA, name: str, environ: dict[str, str], message: str
) -> None:
    with pytest.raises(DeviceError, match=message):
        local_device(name, 8, environ)


@pytest.mark.parametrize("environ", [{"SLURM_GPUS_PER_TASK": "h100:1"}, {"CUDA_VISIBLE_DEVICES": "3"}])
def test_a_launcher_that_shows_each_rank_its_own_gpu_has_numbered_them(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    """They used to be refused without Slurm: four ranks, of which each sees one GPU."""
    with emulate_cuda(monkeypatch, num_gpus=1):
        found = local_device("cuda", 4, {"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4", **environ})
        assert found == torch.device("cuda", 0)


def test_a_gpu_is_named_as_no_other_is(gpus: EmulatedCUDA, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without LOCAL_RANK, as mpirun starts ranks, all of them take the first one; their names tell."""
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    without_number = [local_device("cuda", 4, {"RANK": str(rank)}) for rank in range(2)]
    assert {describe_gpu(device) for device in without_number} == {"here GPU-emulated-cuda:0"}
    assert describe_gpu(torch.device("cuda", 1)) == "here GPU-emulated-cuda:1"
    assert describe_gpu(torch.device("cpu")) is None


def test_ranks_of_one_task_with_several_gpus_take_one_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """One Slurm task with 8 GPUs, in which torchrun or --ranks 8 starts the ranks."""
    with emulate_cuda(monkeypatch, num_gpus=8):
        found = [
            local_device("cuda", 8, {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "8", "SLURM_GPUS_PER_TASK": "8"})
            for rank in range(8)
        ]
    assert found == [torch.device("cuda", rank) for rank in range(8)]


def test_a_run_of_more_ranks_than_gpus_is_refused_before_it_starts(gpus: EmulatedCUDA) -> None:
    refuse_device(parse_runtime({"device": "cuda", "ranks": 4, "implementation": "torchrec"}))
    with pytest.raises(DeviceError, match="5 ranks on this machine, but 4 GPUs"):
        refuse_device(parse_runtime({"device": "cuda", "ranks": 5, "implementation": "torchrec"}))


def test_a_rank_uses_its_gpu_before_nccl_starts(gpus: EmulatedCUDA, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, Any]] = []

    def init_process_group(**options: Any) -> None:
        started.append({**options, "current": gpus.current})

    for name, fake in (
        ("init_process_group", init_process_group),
        ("new_group", lambda **options: None),
        ("get_rank", lambda: 2),
        ("get_world_size", lambda: 4),
    ):
        monkeypatch.setattr(dist, name, fake)
    meeting: Any = SimpleNamespace(store=dist.HashStore(), rank=2, size=4)
    assert meeting.store.set_timeout(timedelta(seconds=1)) is None
    process_group.join(meeting, torch.device("cuda", 2), 1.0)
    assert [(call["current"], call["device_id"], call["backend"]) for call in started] == [
        (2, torch.device("cuda", 2), "cpu:gloo,cuda:nccl")
    ]


@pytest.mark.parametrize("implementation", ["reference", "optimized"])
def test_a_named_gpu_is_the_current_one_of_what_is_built_captured_and_timed(
    gpus: EmulatedCUDA, make_spec: MakeSpec, implementation: str
) -> None:
    spec = make_spec(runtime={"device": "cuda:2"})
    workload = find_implementation("dlrm", implementation).load(spec, SingleProcess())
    workload.build()
    assert gpus.current == 2
    assert ("graph" in dict(gpus.made)) == (implementation == "optimized")
    timeline = Timeline(torch.device("cuda", 2))
    with workload.report_phases(timeline.enter):  # type: ignore[attr-defined]
        workload.train(2)
    timeline.take()
    repeat(lambda: None, torch.device("cuda", 2), budget_s=0.0)
    assert {what for what, _ in gpus.made} >= {"event", "synchronize"}
    assert {current for _, current in gpus.made} == {2}


def test_a_cpu_is_no_current_device(gpus: EmulatedCUDA) -> None:
    use_device(torch.device("cpu"))
    assert gpus.current == 0


@pytest.mark.parametrize("implementation", ["reference", "optimized"])
def test_the_area_under_the_curve_is_computed_on_the_gpu(
    gpus: EmulatedCUDA, make_spec: MakeSpec, implementation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy takes ten seconds, inside the clock, for the scores of the official evaluation."""
    workload = find_implementation("dlrm", implementation).load(
        make_spec(runtime={"device": "cuda"}), SingleProcess()
    )
    workload.build()
    expected = workload.evaluate_with(roc_auc)  # type: ignore[attr-defined]
    monkeypatch.setattr(workload, "evaluate_with", lambda metric: pytest.fail("on the host"))
    assert workload.evaluate() == expected


@pytest.mark.parametrize(
    ("environ", "names"),
    [({}, ("0", "1")), ({"CUDA_VISIBLE_DEVICES": "3, GPU-7"}, ("3", "GPU-7")), ({"CUDA_VISIBLE_DEVICES": ""}, ())],
)
def test_gpus_are_named_as_a_process_that_is_started_is_told_of_them(
    environ: dict[str, str], names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: len(names))
    assert list_gpus(environ) == names
