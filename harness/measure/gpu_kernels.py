"""Check in a separate process whether an implementation's kernels can be used on the requested GPU.

The process is separate so that the calling process holds no memory of the GPU after the check. It is run as `python
-P -m harness.measure.gpu_kernels DEVICE DIM SUMS PRECISION`. It prints the reason why the kernels cannot be used, or
an empty line if they can.
"""

import sys

from harness.config.catalog import WorkloadConfig
from harness.foundation.errors import end_process
from harness.system.code import safe_path_variables
from harness.system.resources import run_for_output
from rules.records.run_set import PreflightCheck as Check

_MODULE = "harness.measure.gpu_kernels"
_ANSWERS_WITHIN_S = 300.0
"""Seconds to wait for the process that tries the kernels: they are compiled when they are first used."""


def check_kernels(workload: WorkloadConfig) -> Check | None:
    """Return the result of the environment check on the GPU kernels (Triton's) that runs would use. The kernels are
    tried in another process; if they fail, the result says why. None if runs use no such kernels or no GPU."""
    runtime, train = workload.runtime, workload.train
    if runtime.device == "cpu" or runtime.kernels == "off" or "kernels" not in workload.implementation.switches:
        return None
    dim = workload.costs([1] * workload.data.num_sparse).row_width
    sums = {"sgd": 0, "rowwise_adagrad": 1}.get(train.opt_name, dim)
    asked = (runtime.device, str(dim), str(sums), runtime.precision)
    answer = run_for_output(
        sys.executable, "-P", "-m", _MODULE, *asked, timeout_s=_ANSWERS_WITHIN_S, **safe_path_variables()
    )
    problem = "they could not be tried" if answer is None else answer.rpartition("\n")[2].rstrip(".")
    return Check(
        name="kernels",
        value=f"torch's operators: {problem}" if problem else "triton",
        status="warning" if problem else "ok",
        why="Without Triton's kernels the same updates take several times as long (estimated).",
        remedy="Install triton and a C compiler, or free the GPU's memory; runtime.kernels=off says that it is meant."
        if problem
        else "",
    )


def _answer(device: str, dim: int, sums: int, precision: str) -> str:
    import torch

    from reference_models.fused.kernel_check import kernel_problem
    from reference_models.training.devices import find_device, use_device

    use_device(found := find_device(device))
    return kernel_problem(found, dim, sums, torch.bfloat16 if precision == "bf16" else torch.float32) or ""


def main(device: str, dim: str, sums: str, precision: str) -> int:
    """Print, as the last line, the reason why the GPU kernels cannot be used; an empty line where they can."""
    sys.stdout.write("\n" + _answer(device, int(dim), int(sums), precision))
    return 0


if __name__ == "__main__":
    end_process(main(*sys.argv[1:]))
