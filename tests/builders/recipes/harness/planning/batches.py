"""A study: how many steps an epoch has, by batch size."""

from collections.abc import Sequence

from harness.config.run_config import RunConfig
from harness.foundation.study import make_check, make_study, make_table
from rules.records.study import Parameter, StudyRecord


def batches_study(config: RunConfig, sizes: Sequence[int]) -> StudyRecord:
    """Whole batches of the dataset; the samples of a last partial one are dropped."""
    samples = config.workload.data.train_samples or 0
    rows = [(size, samples // size, samples % size) for size in sizes]
    columns = (("Batch", None, "given"), ("Steps", None, "computed"), ("Dropped samples", None, "computed"))
    return make_study(
        "batches",
        f"{config.benchmark.name}: steps of an epoch",
        config.benchmark,
        tables=[make_table("By batch size", columns, rows)],
        parameters=[Parameter(name="samples", value=samples, unit=None, source="definition", note=None)],
        findings=["Nothing was trained."],
        checks=[make_check("samples of the first row", expected=samples, found=sizes[0] * rows[0][1] + rows[0][2])],
    )
