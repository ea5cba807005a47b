"""A ranking: plans that are measured once each and ranked together; none is compared with another."""

from dataclasses import dataclass

from harness.config.run_config import RunConfig
from harness.experiment.relations.sweep import Sweep
from harness.experiment.request import Request
from harness.measure.kinds import Kind


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking(Sweep):
    """A sweep of one process per configuration."""

    def repetitions(self, kind: Kind, base: RunConfig, request: Request) -> int:
        return 1


RANKING = Ranking(
    name="ranking", word="ranking", reads_as="table", prefix="sweep", on_failure="leave_out", on_other_code="warn"
)
