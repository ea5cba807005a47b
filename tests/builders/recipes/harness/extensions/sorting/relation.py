"""The first and the last value of each axis, which is read as a sweep is."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.experiment.experiment import Experiment
from harness.experiment.relations.sweep import Sweep
from harness.experiment.request import Request
from harness.measure.kinds import Kind


@dataclass(frozen=True, kw_only=True, slots=True)
class Ends(Sweep):
    """A sweep of the first and the last value of each axis alone."""

    def expand(self, request: Request, kind: Kind, options: Mapping[str, int]) -> Experiment:
        """Resolve both ends of every axis."""
        return Sweep.expand(self, replace(request, axes=[keep_ends(text) for text in request.axes]), kind, options)


def keep_ends(text: str) -> str:
    """Leave out all values of KEY=V1,V2,… but the first and the last."""
    key, _, values = text.partition("=")
    first, *_, last = values.split(",")
    return f"{key}={first},{last}"


ENDS = Ends(name="ends", word="sweep of ends", reads_as="table", prefix="ends", on_failure="leave_out")
