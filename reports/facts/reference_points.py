"""Finds the benchmark definition that a result set is judged by, and the reference convergence points (RCPs) that its
convergence is tested against."""

from pathlib import Path

from reports.results.result import Result
from rules.benchmarks.loader import Benchmark, shipped_names
from rules.benchmarks.rounds import NamedBenchmark, find_definition
from rules.errors import DefinitionError
from rules.logs.text import printable
from rules.scoring.rcp import ReferencePoint, load_points, prune, rcp_file
from rules.tree.result_set import leads_out

MAX_DEFINITION_BYTES = 64 << 10


def find_points(result: Result) -> tuple[Benchmark | None, tuple[ReferencePoint, ...]]:
    """Return two things: a result set's benchmark definition (None if there is none), and the reference convergence
    points of the MLPerf round that the set is judged by."""
    try:
        benchmark = find_definition(_named(result), None, _definition_file(result))
    except DefinitionError:
        return None, ()
    file = rcp_file(benchmark, result.score.round) if benchmark is not None else None
    if benchmark is None or file is None:
        return benchmark, ()
    try:
        points = load_points(file, benchmark.score.num_runs)
    except DefinitionError:
        return benchmark, ()
    return benchmark, points if benchmark.status == "own" or not points else prune(points, benchmark.score.num_runs)


def own_definition(result: Result) -> str | None:
    """Return the printable text of a user's own benchmark definition (one that is not shipped), from the copy in the
    result set.

    Return None if there is no copy, or if it is larger than MAX_DEFINITION_BYTES. Return None also if the copy is a
    link that leads out of the set, or if it defines another benchmark than the one that the logs name.
    """
    path, root = _definition_file(result), result.place
    if path is None or root is None or result.score.benchmark in shipped_names() or leads_out(path, root):
        return None
    try:
        if path.stat().st_size > MAX_DEFINITION_BYTES or find_points(result)[0] is None:
            return None
        lines = path.read_text(encoding="utf-8").strip().split("\n")
    except (OSError, ValueError):
        return None
    return "\n".join(printable(line.expandtabs(4)) for line in lines)


def _definition_file(result: Result) -> Path | None:
    """Return the path of a result set's own copy of its benchmark's definition; None where the set has no copy."""
    return result.judged.result_set.definition_file if result.judged else None


def _named(result: Result) -> NamedBenchmark:
    """Return the name and version of the benchmark that a result set was judged as. The version is the one that most
    of the set's logs state."""
    versions = [run.benchmark_version for run in result.score.runs]
    return NamedBenchmark(name=result.score.benchmark, version=max(versions, key=versions.count, default=None))


def outcome_words(result: Result) -> str:
    """Return in words the outcome of the RCP (reference convergence point) test: 'not tested' if there was no test,
    'no RCP' if there are no points."""
    outcome = result.score.rcp_outcome
    if outcome not in (None, "none"):
        return str(outcome)
    return "not tested" if outcome is None and find_points(result)[1] else "no RCP"
