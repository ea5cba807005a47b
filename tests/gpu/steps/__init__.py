"""The steps of `make gpu`, a module each with `run(setting, findings)`; a process of its own runs each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """What a step is for, and for how long it may run on a GPU and as a rehearsal without one, in seconds."""

    name: str
    title: str
    limit_s: int
    rehearsal_limit_s: int
    least_gib: int = 0
    """Of the GPU's memory; on a smaller one the step is left out."""
    variables: tuple[tuple[str, str], ...] = ()
    """Of the environment, which torch reads when it is imported."""


EXPANDABLE = (("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),)

STEPS: tuple[Step, ...] = (
    Step("facts", "GPU, driver, torch, clocks, energy", 45, 60),
    Step("tests", "tests that need a GPU: equal weights, no waiting, large tables", 150, 60),
    Step("kernels", "milliseconds of each operator of the step", 60, 120),
    Step("throughput", "samples/s by shape, implementation and precision", 150, 180),
    Step("run", "a real run to the target", 120, 180),
    Step("profile", "profile's phases against their limits", 90, 120),
    Step("errors", "no such GPU, too little memory", 60, 60),
    Step("nccl", "collective calls of one rank, and torchrec", 60, 120),
    Step("full_size", "full-size DLRM-DCNv2, built and trained", 100, 60, least_gib=120, variables=EXPANDABLE),
    Step("bytes", "peak and bytes of the full-size step, on tensors without memory", 60, 120),
    Step("guards", "what a CPU can prove: the same code on emulated GPUs", 120, 300),
)
"""In the order in which they run: if time ends, what decides the next work is there."""
BY_NAME = {step.name: step for step in STEPS}
