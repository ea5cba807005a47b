"""Make sweeps: every combination of the axes' values, compared with the baseline and with the best configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.config.axes import make_points, overrides_of, read_axis
from harness.config.matmul import give_matmul
from harness.config.run_config import RunConfig
from harness.experiment.experiment import Configuration, Experiment
from harness.experiment.finish import write_folder_page
from harness.experiment.relation import Relation
from harness.experiment.request import Request
from harness.foundation.errors import HarnessError
from harness.measure.kinds import Kind
from harness.measure.refusals import refuse_unfittable, refuse_unprofilable
from rules.records.experiment import ExperimentRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep(Relation):
    """Relation of a sweep, whose configurations are all combinations of the axes' values; a configuration that fails
    is left out."""

    def expand(self, request: Request, kind: Kind, options: Mapping[str, int]) -> Experiment:
        """Return the experiment of every combination of the axes' values.

        Raises ConfigError for an invalid axis, or one that the kind of measurement may not vary; HarnessError for
        what cannot be run.
        """
        benchmark = request.benchmark_named
        base = kind.resolve(benchmark, request.overrides, request.name)
        axes = [read_axis(text, base.workload.model_spec.width_keys) for text in request.axes]
        points = make_points(axes)
        for override in request.overrides:
            if override.key in {axis.key for axis in axes}:
                raise HarnessError(f"{override.key} is set by {override.source} and by --axis; give it once.")
        kind.check_axes(axes, base.benchmark)
        configs = [
            kind.resolve(benchmark, [*request.overrides, *overrides_of(point)], request.name) for point in points
        ]
        for config in configs:
            kind.check(config.workload)
            if request.with_profile:
                refuse_unprofilable(config.workload)
        if request.with_fit:
            refuse_unfittable([config.workload for config in configs])
        return Experiment(
            request=request,
            kind=kind,
            options=options,
            relation=self.name,
            configurations=tuple(
                Configuration(
                    label=point.label, config=config, folder=f"{number:02d}-{point.folder_name}", values=point.texts
                )
                for number, (point, config) in enumerate(zip(points, configs, strict=True), start=1)
            ),
            repetitions=self.repetitions(kind, base, request),
            axes=tuple(axes),
            division=request.division,
            timeout_s=request.timeout_s,
            matmul=give_matmul(request.matmul, [config.workload for config in configs]),
            name=configs[0].label or configs[0].benchmark.name,
        )

    def repetitions(self, kind: Kind, base: RunConfig, request: Request) -> int:
        """Return the number of repetitions of each configuration of a sweep."""
        return kind.repetitions(base, request.runs)

    def why_misshapen(self, record: ExperimentRecord) -> str | None:
        return None if record.axes else "nothing is varied"

    def write_pages(self, folder: Path) -> None:
        write_folder_page(folder)


SWEEP = Sweep(
    name="matrix", word="sweep", reads_as="table", prefix="sweep", on_failure="leave_out", on_other_code="warn"
)
