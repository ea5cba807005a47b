"""Find and judge the run sets of a package, and refuse those that do not belong together or into this package."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.extensions.packaging.code import read_run_set
from harness.foundation.errors import ExitCode, HarnessError
from harness.run_sets.folder import RUN_SET_FILE
from harness.system.submission import UNSPECIFIED
from rules.benchmarks.loader import shipped_names
from rules.checks.verdict import Verdict
from rules.judge.sets import judge_set
from rules.logs.text import printable
from rules.records.codec import Damage, read_object
from rules.records.run_set import RunSetRecord
from rules.scoring.results import RunResult
from rules.tree.inventory import find_result_sets
from rules.tree.result_set import ResultSet, real_path


@dataclass(frozen=True, kw_only=True, slots=True)
class PackagedSet:
    """One run set of a package. `record` describes how dlrmbench's own runs were made; it is None for run sets of
    other harnesses."""

    result_set: ResultSet
    system: str
    benchmark: str
    system_json: Path
    runs: tuple[RunResult, ...]
    verdict: Verdict
    record: RunSetRecord | None

    @property
    def unshipped_definition(self) -> Path | None:
        """Path of the benchmark definition next to the results if the benchmark is not shipped with dlrmbench; None
        if it is."""
        return self.result_set.definition_file if self.benchmark not in shipped_names() else None


def distinct_sets(sources: Sequence[Path]) -> list[ResultSet]:
    """Return all run sets in all sources of a package, each folder once."""
    by_folder: dict[Path, ResultSet] = {}
    for source in sources:
        if source.is_file():
            raise HarnessError(f"{source}: is one file. Give the run set's or the result tree's directory.")
        for found in find_result_sets(source):
            by_folder.setdefault(real_path(found.folder), found)
    return list(by_folder.values())


def judge_for_package(found: ResultSet, ruleset: str | None) -> PackagedSet:
    """Judge a run set by the rules; return it with its verdict. Raises HarnessError if the set cannot be part of a
    package."""
    folder = printable(str(found.folder))
    if found.system is None or found.benchmark is None:
        raise HarnessError(
            f"{folder}: a bare directory of logs names no system. Expected systems/<system>.json beside "
            "results/<system>/<benchmark>/result_<i>.txt.",
            ExitCode.INPUT,
        )
    if found.system_json is None:
        raise HarnessError(
            f"{folder}: systems/{printable(found.system)}.json is missing. Every system of a package is described.",
            ExitCode.INPUT,
        )
    if found.unread:
        path, reason = found.unread[0]
        raise HarnessError(f"{printable(str(path))}: {reason}. Put the log itself there.", ExitCode.INPUT)
    is_ours = found.root is not None and (found.root / "extra" / RUN_SET_FILE).is_file()
    definition = found.definition_file if found.benchmark not in shipped_names() else None
    judged = judge_set(found, definition, ruleset)
    return PackagedSet(
        result_set=found,
        system=found.system,
        benchmark=found.benchmark,
        system_json=found.system_json,
        runs=judged.runs,
        verdict=judged.verdict,
        record=read_run_set(found.root) if is_ours and found.root is not None else None,
    )


def refuse_shared_places(sets: Sequence[PackagedSet]) -> None:
    places: dict[tuple[str, str], PackagedSet] = {}
    described: dict[str, PackagedSet] = {}
    for packaged in sets:
        first = places.setdefault((packaged.system, packaged.benchmark), packaged)
        if first is not packaged:
            raise HarnessError(
                f"two sets are of {printable(packaged.benchmark)} on {printable(packaged.system)}:\n"
                f"  {printable(str(first.result_set.folder))}\n  {printable(str(packaged.result_set.folder))}\n"
                "A submission holds one. Choose it before looking at the times, and give that one alone."
            )
        other = described.setdefault(packaged.system, packaged)
        if other.system_json.read_bytes() != packaged.system_json.read_bytes():
            raise HarnessError(
                f"{printable(str(other.system_json))} and {printable(str(packaged.system_json))} describe the system "
                f"{printable(packaged.system)} differently. Give systems that differ different names."
            )


def refuse_other_submitter(sets: Sequence[PackagedSet], submitter: str) -> None:
    if submitter == UNSPECIFIED:
        raise HarnessError(
            f"--submitter {submitter!r} names no organisation: it is what a log says when none was given. Set "
            "the submitter before running, with --submitter or in the [submission] table of --config, and run again."
        )
    for packaged in sets:
        for run in packaged.runs:
            if run.organization != submitter:
                said = "names no organisation" if run.organization is None else f"names {run.organization!r}"
                raise HarnessError(
                    f"{printable(run.path)}: the log {printable(said)} as submission_org, not {submitter!r}. Logs "
                    "are never edited: set the submitter before running, with --submitter or in the [submission] "
                    "table of --config, and run again; or package for the organisation that the logs name."
                )
        content = read_object(packaged.system_json)
        if isinstance(content, Damage):
            raise HarnessError(f"{content}.", ExitCode.INPUT)
        if content.get("submitter") != submitter:
            raise HarnessError(
                f"{printable(str(packaged.system_json))}: submitter is {content.get('submitter')!r}, "
                f"not {submitter!r}. Correct the description, or package for the organisation that it names."
            )


def refuse_other_division(sets: Sequence[PackagedSet], division: str | None) -> None:
    for packaged in sets if division is not None else ():
        for run in packaged.runs:
            if run.division != division:
                raise HarnessError(
                    f"{printable(run.path)}: is of the division {run.division!r}, --division asks for {division!r}."
                )
