"""Build an MLPerf submission: systems/, results/ and benchmarks/ of one organisation, from run sets that are
elsewhere.

Logs and descriptions are copied byte for byte. The tree is made in a temporary folder next to its final place, judged
there, and appears by one rename; a package that was refused or interrupted leaves nothing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.extensions.packaging.code import (
    has_source,
    implementation_of,
    is_unchanged,
    own_files,
    source_files,
    system_files,
)
from harness.extensions.packaging.packaged_records import PackagedWeights, add_records, add_weights, kept_weights
from harness.extensions.packaging.sets import (
    PackagedSet,
    distinct_sets,
    judge_for_package,
    refuse_other_division,
    refuse_other_submitter,
    refuse_shared_places,
)
from harness.extensions.packaging.tree import LeftOut, Tree, files_below, is_plain_file, left_out
from harness.foundation.errors import ExitCode, HarnessError
from harness.system.resources import free_disk_bytes
from reference_models.process.atomic_write import sync_folder
from reference_models.registry import is_model
from reports.document.blocks import Block, Prose, text_table
from reports.text.formatting import num_bytes, plural
from rules.benchmarks.loader import load_benchmark
from rules.checks.verdict import Verdict, relocate
from rules.errors import DefinitionError
from rules.judge.checker import check_paths
from rules.logs.text import printable
from rules.temporary_folder import temporary_folder
from rules.tree.result_set import POWER_FOLDER, real_path

PARAMS_FILE = "package_checker_params"
_GIT_UNFRIENDLY = re.compile(r"[\s/\\]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageRequest:
    """Request for a package of run sets. With `allow_non_compliant`, run sets that break rules or are incomplete are
    packaged, too, for review."""

    sources: tuple[Path, ...]
    submitter: str
    output: Path
    division: str | None = None
    ruleset: str | None = None
    allow_non_compliant: bool = False
    second_opinion: bool = True
    weights: bool = False
    """Whether the weights (final parameters) that runs kept are packaged, too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """Package of run sets on disk: `folder` holds the MLPerf submission and SHA256SUMS."""

    folder: Path
    submission: Path
    sets: tuple[PackagedSet, ...]
    left_out: tuple[LeftOut, ...]
    num_files: int
    verdict: Verdict
    weights: PackagedWeights


class NotCompliantError(HarnessError):
    """Error raised if no package is made because its run sets, or the finished tree, break rules or are incomplete;
    `verdicts` say which."""

    def __init__(self, message: str, verdicts: Sequence[Verdict]) -> None:
        super().__init__(message, ExitCode.COMPLIANCE)
        self.verdicts = tuple(verdicts)


def build_package(request: PackageRequest) -> Package:
    """Collect the run sets, judge and copy them, and judge the copy; return the package. Raises NotCompliantError if
    the run sets or the copy break rules, HarnessError for other reasons."""
    name = submission_folder(request.submitter)
    is_empty_folder = request.output.is_dir() and next(request.output.iterdir(), None) is None
    if request.output.is_symlink() or (request.output.exists() and not is_empty_folder):
        raise HarnessError(f"{request.output}: exists already. Nothing is overwritten; choose another --output.")
    _refuse_inside(request)
    sets = tuple(judge_for_package(found, request.ruleset) for found in distinct_sets(request.sources))
    refuse_shared_places(sets)
    refuse_other_submitter(sets, request.submitter)
    refuse_other_division(sets, request.division)
    _refuse_non_compliant([packaged.verdict for packaged in sets], request)
    if request.weights:
        _refuse_weights(sets, request.output)
    request.output.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder("package", request.output.parent) as workshop:
        draft = Path(workshop) / request.output.name
        tree = Tree(draft, name)
        weights = [_add_set(tree, packaged, with_weights=request.weights) for packaged in sets]
        omitted = (*left_out(request.sources, tree), *_missing_code(sets, tree))
        verdict = relocate(_judge(draft / name, sets, request), str(draft), str(request.output))
        _refuse_non_compliant([verdict], request)
        tree.write_sums()
        draft.chmod(0o755)
        if request.output.exists():
            request.output.rmdir()
        draft.rename(request.output)
    sync_folder(request.output.parent)
    return Package(
        folder=request.output,
        submission=request.output / name,
        sets=sets,
        left_out=omitted,
        num_files=len(tree.sums),
        verdict=verdict,
        weights=PackagedWeights(
            num_runs=sum(each.num_runs for each in weights), num_bytes=sum(each.num_bytes for each in weights)
        ),
    )


def _refuse_inside(request: PackageRequest) -> None:
    """Raise HarnessError for a package whose folder is inside one of its sources (the folders of results). Folders of
    results are never changed, and the next package would include this one."""
    for source in request.sources:
        if real_path(request.output).is_relative_to(real_path(source)):
            raise HarnessError(
                f"{request.output}: is in {source}, which is only read. Choose an --output outside of it."
            )


def _refuse_weights(sets: Sequence[PackagedSet], output: Path) -> None:
    """Raise HarnessError if no packaged run set has weights (exit 8), or if the weights do not fit on the disk (exit
    9)."""
    roots = [packaged.result_set.root for packaged in sets if packaged.record is not None]
    kept = [manifest for root in roots if root is not None for _, manifest in kept_weights(root)]
    if not kept:
        raise HarnessError(
            "--weights: none of the runs has any. 'dlrmbench run --keep-weights' keeps them.", ExitCode.INPUT
        )
    needed, free = sum(manifest.num_bytes for manifest in kept), free_disk_bytes(output)
    if needed > free:
        raise HarnessError(
            f"{output}: --weights takes {num_bytes(needed)}, and {num_bytes(free)} are free. Free some space, choose "
            "another --output, or leave --weights out.",
            ExitCode.RESOURCES,
        )


def submission_folder(submitter: str) -> str:
    """Return the name of the submitting organisation's folder. Raises HarnessError if the organisation's name cannot
    be the name of a folder."""
    name = _GIT_UNFRIENDLY.sub("-", submitter.strip())
    if not name or name.startswith(".") or not name.isprintable() or len(name.encode()) > 200:
        raise HarnessError(
            f"--submitter {submitter!r} cannot be a directory's name. Give the organisation's name, without a "
            "leading dot and without control characters."
        )
    return name


def _refuse_non_compliant(verdicts: Sequence[Verdict], request: PackageRequest) -> None:
    broken = [verdict for verdict in verdicts if verdict.outcome != "valid"]
    if broken and not request.allow_non_compliant:
        words = ", ".join(f"{verdict.subject} is {verdict.outcome.upper()}" for verdict in broken)
        raise NotCompliantError(
            f"not packaged: {words}. Correct it, or package it for review with --allow-non-compliant.", broken
        )


def _judge(submission: Path, sets: Sequence[PackagedSet], request: PackageRequest) -> Verdict:
    """Return the verdict on the finished submission by dlrmbench's rules and by the official checkers. A benchmark
    that is not shipped with dlrmbench is judged by the benchmark definition next to its results."""
    definitions = {path for packaged in sets if (path := packaged.unshipped_definition) is not None}
    definition = next(iter(definitions)) if len(definitions) == 1 else None
    return check_paths([submission], definition, request.second_opinion, request.ruleset)[0]


def _add_set(tree: Tree, packaged: PackagedSet, *, with_weights: bool) -> PackagedWeights:
    results = f"results/{packaged.system}/{packaged.benchmark}"
    folder = packaged.result_set.folder
    tree.add(f"systems/{packaged.system}.json", packaged.system_json)
    for log in packaged.result_set.logs:
        tree.add(f"{results}/{log.name}", log)
    tree.add_all(f"{results}/{POWER_FOLDER}", files_below(folder / POWER_FOLDER))
    if is_plain_file(folder / PARAMS_FILE):
        tree.add(f"{results}/{PARAMS_FILE}", folder / PARAMS_FILE)
    benchmarks = f"benchmarks/{packaged.benchmark}"
    definition = packaged.result_set.definition_file
    if packaged.record is None or definition is None:
        # Code and scripts of other harnesses come from their submitter; none are generated.
        tree.add_all(benchmarks, files_below(folder.parents[2] / "benchmarks" / packaged.benchmark))
        return PackagedWeights()
    if has_source(packaged.record):
        tree.add_all(
            f"{benchmarks}/implementations/{implementation_of(packaged.record)}", source_files(packaged.record)
        )
    files = system_files(packaged.record, load_benchmark(definition), definition, packaged.system)
    place, root = f"{benchmarks}/{packaged.system}", packaged.result_set.root
    tree.add_all(place, files)
    assert root is not None  # a set with a record has a root
    add_records(tree, place, root)
    return add_weights(tree, place, root) if with_weights else PackagedWeights()


def _missing_code(sets: Sequence[PackagedSet], tree: Tree) -> Iterator[LeftOut]:
    for packaged in sets:
        where = f"{printable(packaged.benchmark)} on {printable(packaged.system)}"
        if packaged.record is not None and not has_source(packaged.record):
            digest = (packaged.record.code_sha256 or "")[:12]
            code = f"{printable(packaged.record.harness_version)}" + (f" (code {digest})" if digest else "")
            reason = f"the runs were of dlrmbench {code}, other code is installed here"
            yield LeftOut(place=f"source code for {where}", num_files=0, reason=reason)
        for _, place in () if packaged.record is None else own_files(packaged.record).values():
            if not is_unchanged(place):
                yield LeftOut(
                    place=f"{printable(place.label)} for {where}",
                    num_files=0,
                    reason=f"{printable(str(place.path))} has changed since the runs or is gone",
                )
        if packaged.record is None and not any(
            path.split("/")[1:3] == ["benchmarks", packaged.benchmark] for path in tree.sums
        ):
            yield LeftOut(
                place=f"source code and scripts for {where}",
                num_files=0,
                reason="none lie beside the results; add them to benchmarks/ before submitting",
            )


def package_blocks(made: Package) -> tuple[Block, ...]:
    """Return the report blocks (tables and sentences) that show the contents of a package, set by set, and the files
    that were left out with the reasons."""
    sets = [(packaged.system, packaged.benchmark, len(packaged.runs)) for packaged in made.sets]
    num_sets, num_files = plural(len(made.sets), "set"), plural(made.num_files, "file")
    blocks: list[Block] = [
        text_table(
            ("system", "benchmark", "runs"),
            sets,
            numbers=("runs",),
            caption=f"{made.submission}: {num_sets}, {num_files}",
        )
    ]
    if made.weights.num_runs:
        of = plural(made.weights.num_runs, "run")
        size = f"Weights of {of} are in it, {num_bytes(made.weights.num_bytes)}"
        served = [packaged.benchmark for packaged in made.sets if _answers_queries(packaged)]
        which = "them" if len(served) == len(made.sets) else f"those of {', '.join(served)}"
        how = f": 'dlrmbench serve BENCHMARK --weights {made.folder}' serves {which}" if served else ""
        blocks.append(Prose(text=f"{size}{how}."))
    if made.left_out:
        rows = [(item.place, item.num_files, item.reason) for item in made.left_out]
        blocks.append(text_table(("place", "files", "reason"), rows, numbers=("files",), caption="left out:"))
    return tuple(blocks)


def _answers_queries(packaged: PackagedSet) -> bool:
    """Return whether dlrmbench has the model of a run set, so that `serve` can take its weights; False if the
    benchmark definition of the run set cannot be read."""
    try:
        model = load_benchmark(packaged.unshipped_definition or packaged.benchmark).model
    except DefinitionError:
        return False
    return is_model(model)
