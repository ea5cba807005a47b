"""After the last run: judge the set, score it, write its page, say where everything is."""

from dataclasses import dataclass
from pathlib import Path

from harness.foundation.errors import ExitCode
from harness.run_sets.folder import RunSet
from reports.document.blocks import Block
from reports.facts.facts import SetFacts
from reports.page.report import gather_everything, write_page
from reports.views.score import finished_blocks


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedSet:
    """Verdict, score and page of one set."""

    run_set: RunSet
    facts: SetFacts
    report: Path

    @property
    def exit_code(self) -> ExitCode:
        result = self.facts.result
        failed = [run for run in result.runs if not run.converged]
        if failed and result.score_s is None:
            timed_out = all(run.abort_reason == "timeout" for run in failed)
            return ExitCode.TIMEOUT if timed_out else ExitCode.NOT_CONVERGED
        return ExitCode.COMPLIANCE if self.facts.verdict.outcome == "invalid" else ExitCode.DONE

    def blocks(self) -> tuple[Block, ...]:
        """A few lines; the page holds the rest."""
        return finished_blocks(self.facts, self.run_set.system, self.run_set.folder, self.report)


def finish_set(run_set: RunSet) -> FinishedSet:
    """Read, judge and score the set, once, and write its page. Writes nothing else; can be repeated at any time."""
    gathered = gather_everything([run_set.folder])
    (facts,) = gathered.sets
    page = write_page(gathered, run_set.folder / "report.html")
    return FinishedSet(run_set=run_set, facts=facts, report=page)
