"""The steps of `make gpu`, a module each with `run(setting, findings)`; a process of its own runs each."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Step:
    """Purpose of a step, and the seconds for which it may run on a GPU and as a rehearsal without one.

    Time that earlier steps have left is added to `limit_s`.
    """

    name: str
    title: str
    limit_s: int
    rehearsal_limit_s: int
    least_gib: int = 0
    """Least memory of the GPU in GiB; on a smaller one the step is left out."""
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables that torch reads when it is imported."""
    runs: Literal["always", "without a GPU", "by name"] = "always"
    """Condition on which the step runs; by name it always does."""


EXPANDABLE = (("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),)

STEPS: tuple[Step, ...] = (
    Step("facts", "GPU, driver, torch, clocks, energy", 20, 60),
    Step("tests", "tests that need a GPU: equal weights, no waiting, large tables", 110, 60),
    Step("throughput", "samples/s by shape, implementation and precision, captured and eager", 115, 180),
    Step("kernels", "Triton's kernels against torch's operators; milliseconds of each operator", 100, 120),
    Step("full_size", "full-size DLRM-DCNv2, built and trained", 45, 60, least_gib=120, variables=EXPANDABLE),
    Step("profile", "profile's phases against their limits", 45, 120),
    Step("run", "a real run to the target", 45, 180),
    Step("errors", "no such GPU, too little memory", 25, 60),
    Step("nccl", "collective calls of one rank, and torchrec", 20, 120),
    Step("bytes", "peak and bytes of the full-size step, on tensors without memory", 60, 120, runs="without a GPU"),
    Step("guards", "what a CPU can prove: the same code on emulated GPUs", 120, 300, runs="without a GPU"),
    Step("tune", "sizes of the kernels that are fastest here, by batch size", 480, 300, runs="by name"),
)
"""In the order in which they run: if time ends, what decides the next work is there. The limits of those that a GPU
runs, and START_S, fit into WITHIN_S."""
BY_NAME = {step.name: step for step in STEPS}
WITHIN_S, START_S = 540.0, 15.0
"""For all together, and of that for what comes before the first step: packages, and asking which GPU there is."""


def chosen(names: Collection[str], *, is_gpu: bool) -> list[Step]:
    """Return the steps that were named, or those that run where none was."""
    return [
        step
        for step in STEPS
        if (step.name in names if names else step.runs == "always" or (step.runs == "without a GPU" and not is_gpu))
    ]
