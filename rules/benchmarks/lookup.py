"""Which definition judges a log: the shipped one, else the file given, else the copy beside the results."""

from functools import cache
from pathlib import Path

from rules.benchmarks.loader import Benchmark, load_benchmark, shipped_names
from rules.errors import DefinitionError


def find_definition(name: object, benchmark_file: str | Path | None, beside: Path | None) -> Benchmark | None:
    """The definition of the benchmark that a log names, None where nobody defines it.

    A shipped name always means the shipped definition. Raises DefinitionError when `benchmark_file` cannot be
    loaded, or takes a shipped name with other content; a broken copy beside the results counts as none.
    """
    given = load_benchmark(benchmark_file) if benchmark_file is not None else None
    if given is not None and given.name in shipped_names():
        shipped = _load_shipped(given.name)
        if shipped.definition_sha256 != given.definition_sha256:
            raise DefinitionError(
                f"{benchmark_file}: takes the name of the shipped benchmark {given.name!r} with other content. "
                "Give it another name (benchmark.name)."
            )
    if isinstance(name, str) and name in shipped_names():
        return _load_shipped(name)
    if given is not None:
        return given
    if beside is None:
        return None
    try:
        copy = load_benchmark(beside)
    except DefinitionError:
        return None
    return copy if copy.name == name else None


@cache
def _load_shipped(name: str) -> Benchmark:
    """Once per process: a round names the same few in a thousand logs."""
    return load_benchmark(name)
