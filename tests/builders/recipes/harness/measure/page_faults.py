"""Major page faults of a process's timed region, as a member of its record."""

from collections.abc import Mapping
from resource import RUSAGE_SELF, getrusage
from typing import Any

from harness.measure.companions import Companion


class PageFaultsCompanion(Companion):
    """Counts the pages that all ranks had to read from a disk."""

    def start(self) -> None:
        self._before = getrusage(RUSAGE_SELF).ru_majflt

    def stop(self) -> None:
        self._num = getrusage(RUSAGE_SELF).ru_majflt - self._before

    def after(self) -> Mapping[str, Any]:
        return {"num_page_faults": sum(self.process.world.gather(self._num) or ())}
