"""Compare two configurations measured alternately, the new one with the base: `versus` and `run --beside`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.config.matmul import give_matmul
from harness.experiment.experiment import Configuration, Experiment
from harness.experiment.finish import finish_sides
from harness.experiment.relation import Relation
from harness.experiment.relations.one import ranks_of_world
from harness.experiment.request import Request
from harness.experiment.sides import open_source, resolve_beside
from harness.measure.kinds import Kind
from harness.run_sets.names import name_given
from rules.records.experiment import BASE, NEW, ExperimentRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair(Relation):
    """Relation of two configurations measured alternately with equal seeds: an existing run set's and a new one."""

    def expand(self, request: Request, kind: Kind, options: Mapping[str, int]) -> Experiment:
        """Return the experiment of an existing run set's configuration and the new one that a request asks for."""
        ranks_of_world(request, kind)
        source = open_source(request, kind if request.kinds else None)
        kind, base = source.kind, source.config
        new = resolve_beside(request, source)
        for config in (base, new) if request.python is None else (new,):  # the base is checked by its own
            kind.check(config.workload)
        record = source.record
        return Experiment(
            request=request,
            kind=kind,
            options=options or record.options,
            relation=self.name,
            configurations=(
                Configuration(label=name_given(source.folder) or BASE, folder=BASE, config=base),
                Configuration(label=request.name or NEW, folder=NEW, config=new),
            ),
            repetitions=kind.repetitions(new, request.runs),
            division=record.division if source.is_division_given else request.division,
            timeout_s=request.timeout_s or record.timeout_s,
            matmul=give_matmul(request.matmul, [new.workload]),
            source=source,
            name=request.name or base.benchmark.name,
        )

    def why_misshapen(self, record: ExperimentRecord) -> str | None:
        num_sets = sum(each.folder is not None for each in record.configurations)
        return (
            None if num_sets == len(record.configurations) == 2 else "a pair has two configurations, each with a set"
        )

    def write_pages(self, folder: Path) -> None:
        finish_sides(folder)


PAIR = Pair(name="sides", word="pair", reads_as="pair", prefix="beside", takes_python=True)
