"""After the last run, for `run`, `resume` and `sweep`: judge the set, score it, write its page; its exit code."""

from pathlib import Path

from harness.foundation.errors import ExitCode, HarnessError
from reports.facts.facts import SetFacts
from reports.page.gathered import gather_everything
from reports.page.report import write_page
from rules.logs.text import printable


def finish_set(folder: Path) -> tuple[SetFacts, Path]:
    """Read, judge and score a set, once, and write its page. Writes nothing else; can be repeated at any time."""
    gathered = gather_everything([folder])
    if len(gathered.sets) != 1:
        places = ", ".join(printable(str(facts.result_set.folder)) for facts in gathered.sets)
        raise HarnessError(
            f"{folder}: holds results in {places}, expected those of its own runs alone. Move away what is not its.",
            ExitCode.INPUT,
        )
    (facts,) = gathered.sets
    return facts, write_page(gathered, folder / "report.html")


def exit_code_of_set(facts: SetFacts) -> ExitCode:
    """Return NOT_CONVERGED or TIMEOUT where runs that failed leave no score, COMPLIANCE where a rule is broken."""
    failed = [run for run in facts.result.runs if not run.converged]
    if failed and facts.result.score_s is None:
        timed_out = all(run.abort_reason == "timeout" for run in failed)
        return ExitCode.TIMEOUT if timed_out else ExitCode.NOT_CONVERGED
    return ExitCode.COMPLIANCE if facts.verdict.outcome == "invalid" else ExitCode.DONE
