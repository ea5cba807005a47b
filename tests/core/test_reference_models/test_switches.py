"""`runtime.graph` and `runtime.kernels` switch off what is fast: updates stay equal, and the log says so."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from emulated_cuda import EmulatedCUDA, emulate_cuda
from rounding import is_as_near, sway_of
from toy_clicks import SMOOTH, MakeSpec, flatten, is_same

from harness.autotune.choices import find_candidates
from harness.config.axes import make_points, overrides_of, read_axis
from harness.config.run_config import Override, RunConfig, resolve
from harness.foundation.errors import ExitCode, compose_message, exit_code_of
from reference_models.config.sections import parse_runtime
from reference_models.dlrm.cuda_graph import CUDAGraphWorkload
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.dlrm.optimized import OptimizedWorkload
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.process.errors import CaptureError, ConfigError
from reference_models.process.world import SingleProcess
from reference_models.registry import refuse_impossible_runtime, refuse_impossible_serving
from reference_models.training.phases import Phase
from rules.benchmarks.loader import load_benchmark

pytestmark = pytest.mark.numeric
GPU = {"device": "cuda"}


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedCUDA]:
    with emulate_cuda(monkeypatch, num_gpus=1) as emulated:
        yield emulated


def built(make_spec: MakeSpec, **runtime: str) -> CUDAGraphWorkload:
    workload = CUDAGraphWorkload(make_spec(runtime={**GPU, **runtime}), SingleProcess())
    workload.build()
    return workload


def config_of(*settings: str) -> RunConfig:
    pairs = (setting.split("=") for setting in settings)
    return resolve("dlrm_tiny", [Override(key=f"runtime.{key}", value=value, source="test") for key, value in pairs])


@pytest.mark.slow
def test_without_a_graph_the_same_steps_are_launched_one_by_one(gpu: EmulatedCUDA, make_spec: MakeSpec) -> None:
    replayed = built(make_spec)
    num_graphs = len(gpu.graphs)
    launched = built(make_spec, graph="off")
    assert num_graphs == len(gpu.graphs) > 0, "nothing was captured"
    for workload in (replayed, launched):
        workload.train(7)
        workload.train(20)
    assert replayed.evaluate() == launched.evaluate()
    assert is_same(flatten(replayed.state()), flatten(launched.state()))
    assert [each.hyperparameters()["graph"] for each in (replayed, launched)] == ["captured", "off"]
    reported: list[str] = []
    with launched.report_phases(reported.append):
        launched.train(1)
    assert {Phase.DATA, Phase.LOSS, "embedding_forward"} < set(reported) and Phase.REPLAY not in reported
    assert launched.take_replayed() == {}


def test_without_kernels_none_is_tried_on_a_gpu(
    gpu: EmulatedCUDA, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reference_models.dlrm.cuda_graph.kernel_problem", lambda *args: pytest.fail("tried"))
    assert built(make_spec, kernels="off").hyperparameters()["kernels"] == "torch: runtime.kernels is off"


def test_without_kernels_a_cpu_computes_by_torchs_operators(
    make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reference_models.dlrm.optimized.checked_cpu_kernels", lambda *args: pytest.fail("tried"))

    def reference() -> ReferenceWorkload:
        made = ReferenceWorkload(make_spec(train=SMOOTH["adagrad"]), SingleProcess())
        made.build()
        return made

    plain = reference()
    workload = OptimizedWorkload(make_spec(train=SMOOTH["adagrad"], runtime={"kernels": "off"}), SingleProcess())
    workload.build()
    for each in (plain, workload):
        each.train(10)
    assert workload.hyperparameters()["kernels"] == "torch: runtime.kernels is off"
    bound = sway_of(plain, reference, 10, read=lambda of: flatten(of.state()))
    assert is_as_near(flatten(workload.state()), *bound)


@pytest.mark.parametrize(
    ("cause", "code", "words"),
    [
        (AssertionError("aten.nonzero cannot be captured"), ExitCode.USAGE, "nonzero cannot be captured"),
        (torch.OutOfMemoryError("CUDA out of memory."), ExitCode.RESOURCES, "out of memory"),
    ],
)
def test_a_capture_that_fails_names_its_cause_and_the_switch(
    gpu: EmulatedCUDA, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch, cause: Exception, code: int, words: str
) -> None:
    """CUDA ends a capture by an error of its own, which has the cause on its chain."""

    def fail(*args: object) -> torch.Tensor:
        try:
            raise cause
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    def capture_fails(self: CUDAGraphWorkload) -> None:
        monkeypatch.setattr(FusedDLRM, "train_on_tensors", fail)

    warm_up = CUDAGraphWorkload.warm_up
    monkeypatch.setattr(CUDAGraphWorkload, "warm_up", lambda self: (warm_up(self), capture_fails(self))[0])
    with pytest.raises(CaptureError, match=r"captured as a CUDA graph: .*Use --set runtime\.graph=off") as raised:
        built(make_spec)
    assert exit_code_of(raised.value) == code and words in compose_message(raised.value)
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("model", "runtime", "message"),
    [
        ("dlrm", {"graph": "off"}, "implementation 'reference' has no graph to switch off. Leave it out."),
        ("dlrm", {"kernels": "off", "implementation": "torchrec"}, "'torchrec' has no kernels to switch off."),
        ("dlrm", {"graph": "off", "implementation": "optimized"}, "has no graph to switch off on a CPU."),
        ("hstu", {"kernels": "off", "implementation": "optimized"}, "has no kernels to switch off."),
    ],
)
def test_what_is_not_there_cannot_be_switched_off(
    make_spec: MakeSpec, model: str, runtime: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        refuse_impossible_runtime(model, make_spec().train, parse_runtime(runtime))
    assert message in str(raised.value)


@pytest.mark.parametrize("model", ["dlrm", "wukong"])
def test_what_is_there_can_be_switched_off(make_spec: MakeSpec, model: str) -> None:
    for runtime in ({"kernels": "off"}, {**GPU, "kernels": "off", "graph": "off"}):
        asked = parse_runtime({**runtime, "implementation": "optimized"})
        refuse_impossible_runtime(model, make_spec().train, asked)
    with pytest.raises(ConfigError, match=r"runtime\.graph is 'off', but serving has no graph to switch off"):
        refuse_impossible_serving("dlrm", parse_runtime({**GPU, "graph": "off", "implementation": "optimized"}))
    with pytest.raises(ConfigError, match=r"runtime\.kernels is 'of'.*Did you mean 'off'"):
        parse_runtime({"kernels": "of"})


def test_they_are_no_part_of_the_problem_but_of_the_configuration_of_a_sweep_and_of_what_is_timed(
    tmp_path: Path,
) -> None:
    points = make_points([read_axis("runtime.kernels=auto,off"), read_axis("runtime.graph=auto,off")])
    configs = [resolve("dlrm_tiny", overrides_of(point)) for point in points]
    assert {config.benchmark.definition_sha256 for config in configs} == {
        load_benchmark("dlrm_tiny").definition_sha256
    }
    assert len({config.digest() for config in configs}) == 4
    assert not {"runtime.graph", "runtime.kernels"} & config_of().values().keys(), "sets of before go on"
    assert config_of("kernels=off").values()["runtime.kernels"] == {"value": "off", "source": "test"}
    chosen = [
        find_candidates(config_of("implementation=optimized", f"kernels={value}"), tmp_path)
        for value in ("auto", "off")
    ]
    assert chosen[0] is not None and chosen[1] is not None
    assert chosen[0].key != chosen[1].key and "kernels" not in chosen[0].chosen_for
