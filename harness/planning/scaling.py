"""Whether sizes of a model can have a scaling law, before anything is trained."""

from collections.abc import Sequence

from harness.config.catalog import WorkloadConfig
from harness.foundation.errors import ExitCode, HarnessError
from reports.statistics.power_law import why_no_law


def refuse_unfittable(workloads: Sequence[WorkloadConfig]) -> None:
    """Raise HarnessError (exit 7) where too few sizes, or sizes too near to one another, are to be trained.

    All of them train as many samples, so their training FLOP are as those of one sample.
    """
    # FLOP do not depend on the tables' rows, which may be known to prepared data alone.
    flop = [each.costs([1] * each.data.num_sparse).training_flop_per_sample for each in workloads]
    if (why := why_no_law([float(value) for value in flop])) is not None:
        axis = workloads[0].model_spec.scaling_axis if workloads else ""
        such_as = f", such as --axis {axis}" if axis else ""
        raise HarnessError(
            f"--fit: no scaling law can be fitted to {why} (per sample). Vary what makes the model larger{such_as}.",
            ExitCode.INCONCLUSIVE,
        )
