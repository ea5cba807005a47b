"""Judge the tree of an organisation's submission: names, layout, links, sizes, and whether it holds code for the
results.

A defect below systems/ or results/, which the official tools read, is an error. A defect elsewhere is a warning:
published rounds hold accepted submissions whose trees below benchmarks/ differ from what the text of MLPerf's rules
demands.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from rules.benchmarks.loader import guess_meant_name, shipped_names
from rules.checks.rule import Problem, Severity, rule
from rules.checks.subject import SubmissionSubject
from rules.logs.text import show
from rules.tree.others import count_others
from rules.tree.result_set import PARAMETERS, RESULT_FILE
from rules.tree.submission import BENCHMARKS, MAX_ENTRIES, RESULTS, SYSTEMS, SubmissionEntry

_LAYOUT = 'submission_rules.adoc, "Directory structure, Training"'
_REPOSITORY = "mlperf_logging repo_checker"
MAX_FILE_BYTES = 50 << 20
_SOURCES = frozenset({".py", ".cc", ".cpp", ".cxx", ".c", ".h", ".hh", ".hpp", ".hxx", ".sh", ".sub", ".cu", ".cuh"})
"""File name extensions that MLPerf's official seed checker takes for source files."""
_TOP_FILES = re.compile(r"(README|LICENSE|NOTICE)", re.IGNORECASE)
_SYSTEM_FILES = (PARAMETERS, "privateid.json")
_SCRIPTS = ("README.md", "setup.sh", "init_datasets.sh", "run_and_time.sh")


def _severity(entry: SubmissionEntry) -> Severity:
    """Return the severity of a problem at a name in the tree: error where official tools read the name, else
    warning."""
    return "error" if entry.parts[0] in (SYSTEMS, RESULTS) else "warning"


def _at(subject: SubmissionSubject, path: str) -> Path:
    return subject.submission.folder / path


def _systems(subject: SubmissionSubject) -> list[str]:
    return [entry.parts[1] for entry in subject.submission.below(RESULTS) if entry.kind == "folder"]


def _has_code(subject: SubmissionSubject) -> str | None:
    return None if subject.submission.has(BENCHMARKS) else "SU101 reports that there is no benchmarks/"


@rule(
    "SU101",
    "a submission must have the directories systems, results and benchmarks",
    source=_LAYOUT,
    remedy="Lay the submission out as <org>/systems, <org>/benchmarks, <org>/results.",
)
def directories_exist(subject: SubmissionSubject) -> Iterator[Problem]:
    """systems/, results/ and benchmarks/ are in the organisation's directory. A missing systems/ or results/ is an
    error, since the official tools then do not take the directory for a submission. A missing benchmarks/ (the code)
    is only a warning: the official tools do not notice it, and the tree may be an excerpt of the submission."""
    folders = {entry.path for entry in subject.submission.below() if entry.kind == "folder"}
    for name in (SYSTEMS, RESULTS, BENCHMARKS):
        if name not in folders:
            severity: Severity = "warning" if name == BENCHMARKS else "error"
            yield Problem(f"{name}/ is missing", expected=f"{name}/", severity=severity, keys=(name,))


@rule(
    "SU102",
    "the submission must hold the code of every benchmark that has results",
    source='submission_rules.adoc, "Source code requirements for replication"; mlcommons/logging#243',
    remedy="Put the implementation into benchmarks/<benchmark>/implementations/<implementation>/.",
    severity="warning",
    requires={"SU101"},
    reads=(BENCHMARKS,),
    applies=_has_code,
)
def code_exists(subject: SubmissionSubject) -> Iterator[Problem]:
    """Each benchmark with results has a directory below benchmarks/ that holds source files. The official tools
    once accepted a submission without any."""
    for name in sorted({judged.result_set.folder.name for judged in subject.sets}):
        entries = [entry for entry in subject.submission.entries if entry.parts[:2] == (BENCHMARKS, name)]
        if not any(PurePosixPath(entry.path).suffix.lower() in _SOURCES for entry in entries):
            yield Problem(
                f"no source files of {show(name)}",
                _at(subject, BENCHMARKS),
                found="no files" if not any(entry.kind == "file" for entry in entries) else "no source files",
                expected=f"{BENCHMARKS}/{name}/implementations/<implementation>/",
            )


@rule(
    "SU103",
    "every described system must have results, and every result a description",
    source=f"{_LAYOUT}; mlperf_logging package_checker",
    remedy="Name systems/<system>.json and results/<system>/ alike; remove descriptions that nothing uses.",
)
def systems_have_results(subject: SubmissionSubject) -> Iterator[Problem]:
    """systems/<system>.json and results/<system>/ come in pairs. A description without results is a warning. (For
    results that dlrmbench judges, SY101 reports a missing description.)"""
    described = {
        PurePosixPath(entry.path).stem
        for entry in subject.submission.below(SYSTEMS)
        if entry.kind in ("file", "link") and entry.path.endswith(".json")
    }
    used = _systems(subject)
    judged = {judged.result_set.system for judged in subject.sets}
    for name in sorted(set(used) - described - judged):
        yield Problem(
            "the system has no description",
            _at(subject, f"{RESULTS}/{name}"),
            found="no file",
            expected=f"{SYSTEMS}/{name}.json",
        )
    for name in sorted(described - set(used)):
        yield Problem(
            "a system without results",
            _at(subject, f"{SYSTEMS}/{name}.json"),
            expected=f"{RESULTS}/{name}/",
            severity="warning",
        )


@rule(
    "SU104",
    "every result directory must hold logs",
    source=f"{_LAYOUT}; mlperf_logging package_checker: number of result files",
    remedy="Name the logs result_0.txt and so on, or remove the empty directory.",
)
def directories_hold_logs(subject: SubmissionSubject) -> Iterator[Problem]:
    """Each results/<system>/ has a directory per benchmark, and each of these has logs named result_<i>.txt."""
    for judged in subject.sets:
        if not judged.result_set.logs:
            names = ", ".join(judged.result_set.strays[:5])
            yield Problem(
                "a result directory without logs",
                judged.result_set.folder,
                found=show(names) if names else "nothing",
                expected="result_0.txt and so on",
            )
    with_sets = {
        entry.parts[1] for entry in subject.submission.entries if entry.kind == "folder" and len(entry.parts) == 3
    }
    for system in _systems(subject):
        if system not in with_sets:
            yield Problem(
                "a system without a benchmark",
                _at(subject, f"{RESULTS}/{system}"),
                expected=f"{RESULTS}/{system}/<benchmark>/",
            )


@rule(
    "SU105",
    "logs must be in results/<system>/<benchmark>/, where tools look for them",
    source=_LAYOUT,
    remedy="Move the log to results/<system>/<benchmark>/; keep runs that do not count out of the tree.",
    severity="warning",
)
def logs_in_place(subject: SubmissionSubject) -> Iterator[Problem]:
    """No file named result_*.txt is anywhere but in results/<system>/<benchmark>/: no tool reads it elsewhere."""
    for entry in subject.submission.entries:
        is_in_place = len(entry.parts) == 4 and entry.parts[0] == RESULTS
        if entry.kind == "file" and RESULT_FILE.match(entry.parts[-1]) and not is_in_place:
            yield Problem("a log in a place that no tool reads", _at(subject, entry.path))


@rule(
    "SU106",
    "directories of a submission must hold nothing that does not belong there",
    source=f"{_LAYOUT}; mlperf_logging package_checker: unknown files",
    remedy="Remove the file or directory, or move it below benchmarks/.",
    severity="warning",
)
def nothing_else(subject: SubmissionSubject) -> Iterator[Problem]:
    """A submission has systems/, results/ and benchmarks/, and beside them at most a README, a licence and
    package_checker_params. systems/ holds only JSON files, results/ only systems, and results/<system>/ only
    benchmarks."""
    tree = subject.submission
    for entry in tree.below():
        if entry.path not in (SYSTEMS, RESULTS, BENCHMARKS, PARAMETERS) and not _TOP_FILES.match(entry.path):
            yield Problem("a name that the layout does not know", _at(subject, entry.path))
    for entry in tree.below(SYSTEMS):
        if entry.kind == "folder" or not entry.path.endswith(".json"):
            yield Problem("systems/ holds more than descriptions", _at(subject, entry.path))
    for entry in tree.below(RESULTS):
        if entry.kind == "file":
            yield Problem("results/ holds a file", _at(subject, entry.path))
    for system in _systems(subject):
        for entry in tree.below(RESULTS, system):
            if entry.kind == "file" and entry.parts[-1] not in _SYSTEM_FILES:
                yield Problem("a system's directory holds a file", _at(subject, entry.path))


@rule(
    "SU107",
    "file names must not hold a space or begin with a dot",
    source=f"{_REPOSITORY}: git-unfriendly file names",
    remedy="Rename the file or directory without spaces and without a leading dot.",
)
def names_suit_git(subject: SubmissionSubject) -> Iterator[Problem]:
    """No name holds a space or begins with a dot. Below benchmarks/, where published trees hold such names, it is a
    warning."""
    for entry in subject.submission.entries:
        name = entry.parts[-1]
        if " " in name or name.startswith(".") or not name.isprintable():
            yield Problem("an unsuitable name", _at(subject, entry.path), found=show(name), severity=_severity(entry))


@rule(
    "SU108",
    "no file of a submission may be larger than 50 MB",
    source=f"{_REPOSITORY}: files over 50 MB",
    remedy="Remove the file or make it smaller.",
)
def files_are_small(subject: SubmissionSubject) -> Iterator[Problem]:
    """Files of more than 50 MiB (50 * 1024 * 1024 bytes) do not belong into the results' repository."""
    for entry in subject.submission.entries:
        if entry.size_bytes is not None and entry.size_bytes > MAX_FILE_BYTES:
            yield Problem(
                "a large file",
                _at(subject, entry.path),
                found=f"{entry.size_bytes} bytes",
                expected=f"at most {MAX_FILE_BYTES} bytes",
            )


@rule(
    "SU109",
    "no link of a submission may be broken or lead out of the submission",
    source=f"{_REPOSITORY}: symbolic links",
    remedy="Replace the link by what it should lead to.",
)
def links_lead_somewhere(subject: SubmissionSubject) -> Iterator[Problem]:
    """No link in a submission is broken, and none leads out of it; dlrmbench follows neither kind. In systems/ and
    results/ such a link is an error; elsewhere, where no official tool reads, it is a warning. The official tool
    looks for a relative link's target below its own working directory, so it also reports intact links as broken;
    this rule does not."""
    for entry in subject.submission.entries:
        if entry.kind in ("broken link", "link out", "other"):
            what = {"broken link": "a broken link", "link out": "a link that leads out of the submission"}
            yield Problem(
                what.get(entry.kind, "neither a file nor a directory"),
                _at(subject, entry.path),
                severity=_severity(entry),
            )


@rule(
    "SU110",
    "every result directory must have the name of a benchmark",
    source=f"{_LAYOUT}: benchmark directory names; mlperf_logging package_checker",
    remedy="Use the benchmark's keyword, such as dlrm_dcnv2.",
    severity="warning",
)
def benchmarks_are_known(subject: SubmissionSubject) -> Iterator[Problem]:
    """A directory whose name is no benchmark is skipped by the official package checker, with a warning only.
    MLPerf's benchmarks outside of recommendation are counted (info) and not judged."""
    for judged in subject.sets:
        name = judged.result_set.folder.name
        if name not in shipped_names():
            near = guess_meant_name(name)
            yield Problem(
                "no benchmark of this name is known" + (f"; did you mean {near}?" if near else ""),
                judged.result_set.folder,
                found=show(name),
                expected="dlrm_dcnv2 or another keyword of the round",
            )
    if others := subject.submission.others:
        yield Problem(
            f"{count_others(others)} that dlrmbench does not judge",
            found=", ".join(sorted({other.benchmark for other in others})),
            severity="info",
            remedy="Nothing: only the official checkers judge them.",
        )


@rule(
    "SU111",
    "every benchmark of a submission must be one of its round",
    source="mlperf_logging benchmark_meta: benchmarks of each round",
    remedy="Submit a benchmark of the round; look for a tree that is in another round's directory.",
)
def round_has_benchmark(subject: SubmissionSubject) -> Iterator[Problem]:
    """The round that the directories name is one in which the benchmark took part."""
    for judged in subject.sets:
        round_name = judged.result_set.round
        if judged.rounds and round_name is not None and round_name not in judged.rounds:
            yield Problem(
                f"round {round_name} has no benchmark {judged.verdict.benchmark}",
                judged.result_set.folder,
                found=round_name,
                expected=", ".join(judged.rounds),
            )


@rule(
    "SU112",
    "the submission should hold the files that run the code on the system",
    source=_LAYOUT,
    remedy="Add <system>_<implementation>.json and the scripts to benchmarks/<benchmark>/<system>/.",
    severity="info",
    requires={"SU101"},
    reads=(BENCHMARKS,),
    applies=_has_code,
)
def system_directories(subject: SubmissionSubject) -> Iterator[Problem]:
    """benchmarks/<benchmark>/<system>/, or the same below implementations/, holds <system>_<implementation>.json,
    README.md, setup.sh, init_datasets.sh and run_and_time.sh. Many published trees keep these elsewhere."""
    paths = {entry.path for entry in subject.submission.entries}
    for judged in subject.sets:
        benchmark, system = judged.result_set.folder.name, judged.result_set.system or ""
        places = (f"{BENCHMARKS}/{benchmark}/{system}", f"{BENCHMARKS}/{benchmark}/implementations/{system}")
        place = next((each for each in places if each in paths), None)
        if place is None:
            yield Problem(
                f"no directory of the system for {show(benchmark)}",
                _at(subject, BENCHMARKS),
                expected=f"{places[0]}/",
            )
            continue
        missing = [name for name in _SCRIPTS if f"{place}/{name}" not in paths]
        if not any(path.startswith(f"{place}/{system}_") and path.endswith(".json") for path in paths):
            missing.insert(0, f"{system}_<implementation>.json")
        if missing:
            yield Problem("files are missing", _at(subject, place), expected=", ".join(missing))


@rule(
    "SU113",
    "the submission must be small enough to be read in full",
    source="a rule of dlrmbench, not of MLPerf: a bound of this tool",
    remedy="Check a smaller directory, such as results/ alone.",
    severity="warning",
)
def tree_is_listed(subject: SubmissionSubject) -> Iterator[Problem]:
    """A submission of more than 200,000 names is read only up to that number."""
    if subject.submission.is_cut:
        yield Problem(f"more than {MAX_ENTRIES} names; the rest was not read")
