"""Define a ranking: placement plans that are each measured once and ranked together, without a verdict on any two
plans."""

from dataclasses import dataclass

from harness.config.run_config import RunConfig
from harness.experiment.relations.sweep import Sweep
from harness.experiment.request import Request
from harness.measure.kinds import Kind


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking(Sweep):
    """A ranking of configurations, such as placement plans: a sweep that measures each configuration in one
    process."""

    def repetitions(self, kind: Kind, base: RunConfig, request: Request) -> int:
        return 1


RANKING = Ranking(
    name="ranking", word="ranking", reads_as="table", prefix="sweep", on_failure="leave_out", on_other_code="warn"
)
