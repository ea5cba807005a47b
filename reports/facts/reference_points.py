"""The reference convergence points that a result set is held against."""

from reports.facts.facts import SetFacts
from rules.benchmarks.loader import Benchmark
from rules.benchmarks.rounds import Named, find_definition
from rules.errors import DefinitionError
from rules.scoring.rcp import ReferencePoint, load_points, prune, rcp_file


def find_points(facts: SetFacts) -> tuple[Benchmark | None, tuple[ReferencePoint, ...]]:
    """The set's definition, None where nobody defines it, and the points of its round; none where there are none."""
    try:
        benchmark = find_definition(_named(facts), None, facts.result_set.definition_file)
    except DefinitionError:
        return None, ()
    file = rcp_file(benchmark, facts.result.round) if benchmark is not None else None
    if benchmark is None or file is None:
        return benchmark, ()
    try:
        points = load_points(file, benchmark.score.num_runs)
    except DefinitionError:
        return benchmark, ()
    return benchmark, points if benchmark.status == "own" or not points else prune(points, benchmark.score.num_runs)


def _named(facts: SetFacts) -> Named:
    """The benchmark that the set was judged as: the version is what most of its logs state."""
    versions = [run.benchmark_version for run in facts.result.runs]
    return Named(name=facts.result.benchmark, version=max(versions, key=versions.count, default=None))


def outcome_words(facts: SetFacts) -> str:
    """The convergence test in a word or two: where points are known, a set without an outcome was not tested."""
    outcome = facts.result.rcp_outcome
    if outcome not in (None, "none"):
        return str(outcome)
    return "not tested" if outcome is None and find_points(facts)[1] else "no RCP"
