"""dlrmbench from Python: `from harness import api`. What the command line does, as five functions that stay.

`run` and `sweep` start fresh processes and return the folder of what they made; `results`, `compare` and `render`
read such folders, anyone's result directories and logs; the first two also files of `report --format json`. Settings
are the keys of `--set`; neither the environment's `DLRMBENCH_` variables nor a configuration file is read. What a
caller can correct is raised as HarnessError, ConfigError, DefinitionError, DatasetError or InputError, with the
command line's own message; a run that misses its target is a result and no error.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config.run_config import OVERRIDABLE, SUBMISSION, Override
from harness.foundation.errors import HarnessError
from reports.frames import Frames, compare
from reports.frames import read as results

if TYPE_CHECKING:
    from harness.measure.kinds import MeasurementKind

__all__ = ["Frames", "compare", "render", "results", "run", "sweep"]

_ASKED = {"throughput": "num_steps", "quality": "num_samples"}
"""Kinds of measurements, each with the member of its job that the argument of its name gives."""


def run(
    benchmark: str | Path = "dlrm_small",
    *,
    runs: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    throughput: int | None = None,
    quality: int | None = None,
    name: str | None = None,
    division: str | None = None,
    timeout_s: float | None = None,
    data: str | Path | None = None,
    output: str | Path = "results",
    quiet: bool = True,
) -> Path:
    """Train a benchmark to its target `runs` times, judge, score and report; returns the set's folder below `output`.

    `benchmark` is a name or the path of a definition, `settings` such as {"runtime.threads": 2}; `throughput`
    measures samples/s over so many steps instead, `quality` AUC and log loss after so many samples, both in at least
    5 processes. The page is `report.html` in the folder. `dlrmbench resume` completes an interrupted set.
    """
    from harness.run_sets.finish import finish_set
    from harness.run_sets.folder import locked, open_run_set
    from harness.run_sets.measurement import measure_set
    from harness.run_sets.names import link_latest
    from harness.run_sets.prepare import num_runs_of, prepare, refuse_impossible, refuse_output, resolve_for
    from harness.run_sets.runner import RunRequest, complete_set, start_set

    kind, options = _find_kind(throughput=throughput, quality=quality)
    config = resolve_for(kind, str(benchmark), _overrides(settings), name)
    refuse_impossible(config.workload)
    refuse_output(Path(output))
    prepared = prepare(config, _path(data), quiet=quiet)
    request = RunRequest(
        num_runs=num_runs_of(kind, config, runs),
        base_seed=seed,
        division=division,
        timeout_s=timeout_s,
        kind=kind.name,
        options=kind.fit(options, [prepared.size]),
        output=Path(output),
        command=_command(
            "run",
            benchmark,
            settings,
            runs=runs,
            seed=seed,
            throughput=throughput,
            quality=quality,
            name=name,
            division=division,
            timeout=timeout_s,
            data=data,
            output=output,
        ),
        quiet=quiet,
    )
    folder = start_set(config, prepared, request).folder
    link_latest(folder)
    if kind.is_scored:
        complete_set(folder, quiet=quiet)
        finish_set(folder)
        return folder
    run_set, record = open_run_set(folder)
    with locked(run_set):
        measure_set(run_set, record, lambda index, measured: None)
    return folder


def sweep(
    benchmark: str | Path,
    axes: Mapping[str, Sequence[Any]],
    *,
    runs: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    throughput: int | None = None,
    quality: int | None = None,
    name: str | None = None,
    division: str | None = None,
    timeout_s: float | None = None,
    data: str | Path | None = None,
    output: str | Path = "results",
    quiet: bool = True,
) -> Path:
    """Run a benchmark in every combination of the axes' values, interleaved, with shared seeds; returns the folder.

    `axes` are keys with their values, such as {"runtime.threads": [1, 2]}; the other arguments are those of `run`.
    Runs that fail are recorded in sweep.json and leave the others alone; `report.html` in the folder shows all.
    """
    from harness.config.seeds import draw_base_seed
    from harness.run_sets.names import link_latest
    from harness.run_sets.prepare import num_runs_of, refuse_output
    from harness.run_sets.runner import RunRequest
    from harness.run_sets.sweep import complete_sweep, prepare_sweep, start_sweep

    kind, options = _find_kind(throughput=throughput, quality=quality)
    refuse_output(Path(output))
    texts = [f"{key}={','.join(map(_text, values))}" for key, values in axes.items()]
    base, read, configurations = prepare_sweep(
        kind, str(benchmark), _overrides(settings), texts, name, _path(data), quiet=quiet
    )
    request = RunRequest(
        num_runs=num_runs_of(kind, base, runs),
        base_seed=draw_base_seed() if seed is None else seed,
        division=division,
        timeout_s=timeout_s,
        kind=kind.name,
        options=kind.fit(options, [each.prepared.size for each in configurations if each.prepared is not None]),
        output=Path(output),
        command=_command(
            "sweep",
            benchmark,
            settings,
            axis=texts,
            runs=runs,
            seed=seed,
            throughput=throughput,
            quality=quality,
            name=name,
            division=division,
            timeout=timeout_s,
            data=data,
            output=output,
        ),
        quiet=quiet,
    )
    folder = start_sweep(read, configurations, request)
    link_latest(folder)
    complete_sweep(folder, quiet=quiet)
    render(folder, output=folder / "report.html")
    return folder


def render(
    *paths: str | Path, output: str | Path = "report.html", title: str | None = None, second_opinion: bool = True
) -> Path:
    """Write all results at or below `paths` as one page, or as JSON, CSV or Markdown by the ending of `output`.

    Returns `output`, which appears whole or not at all. Raises InputError where a path holds nothing.
    """
    from reports.page.gathered import gather_everything
    from reports.page.report import FORMATS, render_report, write_whole

    target = Path(output)
    form = target.suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise HarnessError(f"output {target}: expected a file name that ends in .{', .'.join(FORMATS)}.")
    gathered = gather_everything([Path(path) for path in paths], second_opinion=second_opinion)
    return write_whole(target, render_report(gathered, output_format=form, title=title))


def _find_kind(**asked: int | None) -> "tuple[MeasurementKind, dict[str, int]]":
    from harness.measure.kinds import find_kind

    given = {name: value for name, value in asked.items() if value is not None}
    if len(given) > 1:
        raise HarnessError(f"{' and '.join(given)} are two measurements; give one of them.")
    for name, value in given.items():
        if value < 1:
            raise HarnessError(f"{name} is {value}, expected a whole number of at least 1.")
        return find_kind(name), {_ASKED[name]: value}
    return find_kind("training"), {}


def _overrides(settings: Mapping[str, Any] | None) -> list[Override]:
    """List what a caller sets. Raises HarnessError for a key without a known section."""
    return list(_read_settings(settings or {}))


def _read_settings(settings: Mapping[str, Any]) -> Iterator[Override]:
    known = (*OVERRIDABLE, SUBMISSION)
    for key, value in settings.items():
        section, _, name = key.partition(".")
        if section not in known or not name:
            raise HarnessError(f"settings: {key!r}, expected section.key with a section of {', '.join(known)}.")
        yield Override(key=key, value=list(value) if isinstance(value, tuple) else value, source="settings")


def _command(verb: str, benchmark: str | Path, settings: Mapping[str, Any] | None, **options: Any) -> list[str]:
    """Return the command line that does the same, which the set keeps on record."""
    words = ["dlrmbench", verb, str(benchmark)]
    for key, value in (settings or {}).items():
        words += ["--set", f"{key}={_text(value)}"]
    for name, value in options.items():
        for each in value if isinstance(value, list) else [] if value is None else [value]:
            words += [f"--{name}", str(each)]
    return words


def _text(value: Any) -> str:
    """Write a value as --axis takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)
