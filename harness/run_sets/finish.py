"""After the last run: judge the set, score it, write its page, say where everything is."""

from dataclasses import dataclass
from pathlib import Path

from harness.foundation.errors import ExitCode
from harness.run_sets.folder import RunSet
from reports.page.report import gather_everything, write_page
from reports.statistics.intervals import coverage_words, log_summary, olympic_interval
from reports.text.formatting import count, duration, interval, percent, plural, throughput_text
from rules.checks.verdict import Verdict
from rules.scoring.results import BenchmarkResult

STEADY_THROUGHPUT = 0.05
"""Coefficient of variation above which speed is remarked on; quiet systems show 0.001 to 0.005."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedSet:
    """Verdict, score and page of one set."""

    run_set: RunSet
    verdict: Verdict
    result: BenchmarkResult
    report: Path

    @property
    def exit_code(self) -> ExitCode:
        failed = [run for run in self.result.runs if not run.converged]
        if failed and self.result.score_s is None:
            timed_out = all(run.abort_reason == "timeout" for run in failed)
            return ExitCode.TIMEOUT if timed_out else ExitCode.NOT_CONVERGED
        return ExitCode.COMPLIANCE if self.verdict.outcome == "invalid" else ExitCode.DONE

    def summary(self) -> str:
        """A few lines for the terminal; the page holds the rest."""
        result, findings = self.result, self.verdict.findings
        num_converged = sum(run.converged for run in result.runs)
        errors = plural(sum(finding.severity == "error" for finding in findings), "error")
        warnings = plural(sum(finding.severity == "warning" for finding in findings), "warning")
        rows = [
            ("verdict", f"{self.verdict.outcome.upper()}: {errors}, {warnings}"),
            ("runs", f"{num_converged} of {len(result.runs)} reached the target"),
            *self._score_rows(),
            ("results", str(self.run_set.folder)),
            ("report", str(self.report)),
        ]
        head = f"{result.benchmark} on {self.run_set.system}"
        return "\n".join([head, *(f"  {label:<22}{text}" for label, text in rows)])

    def _score_rows(self) -> list[tuple[str, str]]:
        if self.result.score_s is None:
            return [("score", f"none: {self.result.no_score_reason or 'the runs do not make one'}")]
        runs = [run for run in self.result.runs if run.converged]
        rows = [("time to train", f"{duration(self.result.score_s)} (measured; Olympic mean)")]
        times_s = [run.time_to_train_s for run in runs if run.time_to_train_s is not None]
        bounds = olympic_interval(times_s, len(self.result.dropped) // 2)
        if bounds is not None and len(times_s) == len(self.result.runs):
            covered = "" if bounds.coverage is None else f"; {coverage_words(bounds.coverage, len(times_s))}"
            both = interval(duration(bounds.low), duration(bounds.high))
            rows.append((f"{bounds.confidence:.0%} interval", f"{both} (bootstrap over runs{covered})"))
        for label, values, text in (
            ("samples to converge", [run.samples_to_converge for run in runs], count),
            ("throughput", [run.throughput_samples_per_s for run in runs], throughput_text),
            ("evaluation, overhead", [run.overhead_s for run in runs], duration),
        ):
            if (summary := log_summary(values)) is not None:
                spread = summary.coefficient_of_variation
                varies = "" if spread is None else f", coefficient of variation {percent(spread)}"
                rows.append((label, f"{text(summary.geometric_mean)} (geometric mean{varies})"))
                if label == "throughput" and spread is not None and spread > STEADY_THROUGHPUT:
                    rows.append(
                        ("note", "the speed varied between runs: something disturbed them, see 'dlrmbench doctor'")
                    )
        return rows


def finish_set(run_set: RunSet) -> FinishedSet:
    """Read, judge and score the set, once, and write its page. Writes nothing else; can be repeated at any time."""
    gathered = gather_everything([run_set.folder])
    (facts,) = gathered.sets
    page = write_page(gathered, run_set.folder / "report.html")
    return FinishedSet(run_set=run_set, verdict=facts.verdict, result=facts.result, report=page)
