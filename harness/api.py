"""Python API of dlrmbench: `from harness import api`. Its functions do what the command line does, and are stable.

`run` and `sweep` start fresh processes and return the folder of their results; `resume` completes such a folder.
`results`, `compare` and `render` read such folders, other result directories and logs. `results` and `compare` also
read files of `report --format json`. Settings are the keys of `--set`; neither the environment's `DLRMBENCH_`
variables nor a configuration file is read. Errors that the caller can correct are HarnessError, ConfigError,
DefinitionError, DatasetError or InputError, with the command line's own message. A run that misses its target is a
result, not an error. Functions that extensions add are attributes of this module, too.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config.run_config import read_settings
from harness.foundation.errors import HarnessError
from harness.foundation.files import resolve_program_path
from reports import frames
from reports.comparison.comparison import CONFIDENCE
from reports.frames import Frames
from rules.errors import InputError
from rules.extensions import find_places, load_place

if TYPE_CHECKING:
    from harness.experiment.request import Request

__all__ = ["Frames", "compare", "render", "results", "resume", "run", "sweep"]


def __getattr__(name: str) -> Any:
    """Return the function `name` that an extension adds to the API. Raises AttributeError where no extension has a
    function of that name."""
    if (place := find_places("functions").get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load_place(place)


def run(
    benchmark: str | Path | None = None,
    *,
    runs: int | None = None,
    until: float | None = None,
    max_runs: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    beside: str | Path | None = None,
    python: str | Path | None = None,
    throughput: int | None = None,
    quality: int | None = None,
    keep_weights: bool = False,
    matmul: str | Path | None = None,
    name: str | None = None,
    division: str | None = None,
    timeout_s: float | None = None,
    data: str | Path | None = None,
    output: str | Path = "results",
    quiet: bool = True,
    kinds: Mapping[str, int | None] | None = None,
) -> Path:
    """Train a benchmark to its target `runs` times, judge, score and report; return the run set's folder below
    `output`.

    `benchmark` is a name or the path of a definition, dlrm_small by default; `settings` are values such as
    {"runtime.threads": 2}. `throughput` is a number of steps: samples/s over these steps are measured, and no run
    goes to the target. `quality` is a number of samples: AUC (or accuracy) and log loss are measured after training
    on them. Throughput and quality are measured in at least 5 processes. `until` is a fraction such as 0.03: runs are
    added, to `max_runs` at most, until the confidence interval of the mean time to train is within that fraction of
    the mean. `keep_weights` keeps the final weights of each run. `matmul` is a file with the chosen kernels for
    matrix products (as for --matmul). `kinds` requests a kind of measurement by name, such as {"throughput": 20}; the
    value is None for a kind without a number. The page of results is `report.html` in the returned folder. The
    function `resume` completes an interrupted set.

    `beside` is the folder of an existing run set. Its configuration is measured again (by the interpreter `python` if
    given), alternately with a new configuration. The new configuration is that of `benchmark` if given, else the run
    set's, changed by `settings`. The returned folder then holds two run sets to be compared, `base` (measured again)
    and `new`.
    """
    return start(make_request("run", locals()))


def sweep(
    benchmark: str | Path,
    axes: Mapping[str, Sequence[Any]],
    *,
    runs: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    throughput: int | None = None,
    quality: int | None = None,
    keep_weights: bool = False,
    matmul: str | Path | None = None,
    name: str | None = None,
    division: str | None = None,
    timeout_s: float | None = None,
    data: str | Path | None = None,
    output: str | Path = "results",
    quiet: bool = True,
    kinds: Mapping[str, int | None] | None = None,
) -> Path:
    """Run a benchmark in every combination of the axes' values, interleaved, with shared seeds; return the sweep's
    folder.

    `axes` are keys with their values, such as {"runtime.threads": [1, 2]}; the other arguments are those of `run`. A
    failed run is recorded in experiment.json and does not stop the other runs; `report.html` in the returned folder
    shows all of them.
    """
    return start(make_request("sweep", locals()))


def resume(
    folder: str | Path,
    *,
    runs: int | None = None,
    models: Sequence[str] = (),
    implementations: Sequence[str] = (),
    python: str | Path | None = None,
    quiet: bool = True,
) -> Path:
    """Complete a run set, sweep, pair (two configurations measured alternately) or measurement with the settings that
    it began with, or add repetitions until there are `runs`; return `folder`. Finished runs are kept.

    The user's own models and implementations are used only if they are named again, in `models` and
    `implementations`. If another Python interpreter measured the first configuration of a pair, it must be given
    again, as `python`. If another version of dlrmbench began the experiment, a Python warning says so and the
    experiment is continued.
    """
    from harness.experiment.context import Context, Watcher
    from harness.experiment.finish import write_pages
    from harness.experiment.loop import complete, look_again

    folder = Path(folder)
    context = Context(
        python=resolve_program_path(python),
        models=models,
        implementations=implementations,
        watcher=Watcher(quiet=quiet),
    )
    _, other = look_again(folder, context)
    if other is not None:
        warnings.warn(other, stacklevel=2)
    complete(folder, context, num_runs=runs)
    write_pages(folder)
    return folder


def results(*paths: str | Path, benchmark_file: str | Path | None = None, second_opinion: bool = False) -> Frames:
    """Return all results at or below `paths`, each a path or the name of a run set or sweep in the results folder, as
    pandas DataFrames.

    The name of a run set is its folder's name, the name that --name gave it, or `latest`, as on the command line.
    `reports.frames.read` describes the DataFrames.
    """
    return frames.read(*map(_find, paths), benchmark_file=benchmark_file, second_opinion=second_opinion)


def compare(
    base: str | Path, *news: str | Path, min_effect: float | None = None, confidence: float = CONFIDENCE
) -> Any:
    """Compare each run set of `news` with the run set `base`, all given by path or name; return the comparisons as
    the DataFrame that `reports.frames.compare` describes."""
    return frames.compare(_find(base), *map(_find, news), min_effect=min_effect, confidence=confidence)


def _find(given: str | Path) -> Path:
    """Return `given` where it is an existing path, else the folder of the run set or sweep that it names in the
    results folder. Raises InputError for an unknown or ambiguous name."""
    from harness.run_sets.names import find_named, find_results_folder, refuse_missing

    if os.path.lexists(given):
        return Path(given)
    found = find_named(str(given), find_results_folder())
    if len(found) > 1:
        raise InputError(f"{given!r} is the name of several sets; give one of them: {', '.join(map(str, found))}.")
    refuse_missing([Path(given)] if not found else [])
    return found[0] if found else Path(given)


def render(
    *paths: str | Path, output: str | Path | None = None, title: str | None = None, second_opinion: bool = True
) -> Path:
    """Write all results at or below `paths` as one page, or as JSON, CSV or Markdown by the suffix of `output`.

    Returns the path written: `output`, by default report.html in the current folder. The file is written atomically.
    A link at the default path is replaced, not followed. Raises InputError where a path holds no results.
    """
    from reports.page.content import gather_everything
    from reports.page.report import FORMATS, PAGE_NAME, render_report, write_unnamed, write_whole

    target = Path(PAGE_NAME if output is None else output)
    form = target.suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise HarnessError(f"output {target}: expected a file name that ends in .{', .'.join(FORMATS)}.")
    gathered = gather_everything([_find(path) for path in paths], second_opinion=second_opinion)
    write = write_unnamed if output is None else write_whole
    return write(target, render_report(gathered, output_format=form, title=title))


def make_request(verb: str, arguments: Mapping[str, Any]) -> "Request":
    """Return the request for an experiment from a call of an API function. `verb` is the command that does the same,
    such as "run"; `arguments` are the call's arguments by name, None where not given."""
    from harness.experiment.request import Request, as_text
    from harness.run_sets.names import find_results_folder, led_to
    from rules.records.kinds import PLACES

    members = {name: value for name, value in arguments.items() if value is not None}
    kinds = {kind: members.pop(kind) for kind in PLACES if kind in members}
    members["kinds"] = {**members.get("kinds", {}), **kinds}
    if "axes" in members:
        members["axes"] = [f"{key}={','.join(map(as_text, values))}" for key, values in members["axes"].items()]
    for name in ("beside", "weights"):
        if name in members:
            members[name] = led_to(str(members[name]), find_results_folder())
    for name in ("beside", "matmul", "data", "output"):
        if name in members:
            members[name] = Path(members[name])
    members["python"] = resolve_program_path(members.get("python"))
    if "benchmark" in members:
        members["benchmark"] = str(members["benchmark"])
    return Request(verb=verb, overrides=read_settings(members.get("settings")), **members)


def start(request: "Request") -> Path:
    """Make a new experiment for a request, complete it and write its page; return the experiment's folder."""
    from harness.experiment.context import Context
    from harness.experiment.create import create
    from harness.experiment.expand import expand
    from harness.experiment.finish import write_pages
    from harness.experiment.loop import complete
    from harness.experiment.prepare import prepare

    # A user's own code is imported in this process: it is the caller's anyway. Other processes keep the time.
    folder = create(prepare(expand(request)))
    complete(folder, Context.of(request))
    write_pages(folder)
    return folder
