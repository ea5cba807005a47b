"""dlrmbench from Python: `from harness import api`. What the command line does, as seven functions that stay.

`run`, `sweep` and `serve` start fresh processes and return the folder of what they made, `resume` completes it;
`results`, `compare` and `render` read such folders, anyone's result directories and logs; the first two also files of
`report --format json`. Settings are the keys of `--set`; neither the environment's `DLRMBENCH_` variables nor a
configuration file is read. What a caller can correct is raised as HarnessError, ConfigError, DefinitionError,
DatasetError or InputError, with the command line's own message; a run that misses its target is a result, no error.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config.settings import read_settings
from harness.foundation.errors import HarnessError
from harness.foundation.files import program_path
from reports.frames import Frames, compare
from reports.frames import read as results

if TYPE_CHECKING:
    from harness.measure.kinds import MeasurementKind
    from harness.run_sets.pair import PairRequest
    from harness.run_sets.runner import RunRequest

__all__ = ["Frames", "compare", "render", "results", "resume", "run", "serve", "sweep"]

_ASKED = {"throughput": "num_steps", "quality": "num_samples"}
"""Kinds of measurements, each with the member of its job that the argument of its name gives."""


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
) -> Path:
    """Train a benchmark to its target `runs` times, judge, score and report; returns the set's folder below `output`.

    `benchmark` is a name or the path of a definition, dlrm_small by default, `settings` such as {"runtime.threads":
    2}; `throughput` measures samples/s over so many steps instead, `quality` AUC (or accuracy) and log loss after so
    many samples, both in at least 5 processes. `until` adds runs, to `max_runs` at most, until the mean time to train
    is known to that fraction, such as 0.03; `keep_weights` keeps what each run ends with; `matmul` is a file as of
    --matmul. The page is `report.html` in the folder. `resume` completes an interrupted set.

    With the folder of a set as `beside`, its configuration is measured again, by the interpreter `python` where that
    is given, and in turns with it the new one: that configuration with `settings`, or `benchmark` with them. The
    folder that is returned then holds the two sets `base` and `new`, to be compared.
    """
    from harness.config.matmul import give_matmul
    from harness.run_sets.choice import choose
    from harness.run_sets.growth import make_until
    from harness.run_sets.names import link_latest
    from harness.run_sets.pair import start_pair
    from harness.run_sets.prepare import num_runs_of, prepare, refuse_impossible, refuse_output, resolve_for
    from harness.run_sets.runner import start_set

    asked = _Asked(
        runs, until, max_runs, seed, settings or {}, throughput, quality, matmul, name, division, timeout_s, data,
        output,
    )  # fmt: skip
    kind, options = asked.kind()
    if keep_weights and (beside is not None or not kind.is_scored):
        raise HarnessError("keep_weights is for runs to the target of one set; leave it out.")
    if beside is not None:
        folder = start_pair(asked.pair(benchmark, beside, python, quiet=quiet))
        link_latest(folder)
        _complete(folder, python=program_path(python), quiet=quiet)
        return folder
    if python is not None:
        raise HarnessError("python is the interpreter of the set that beside names; give that too.")
    benchmark = benchmark or "dlrm_small"
    config = resolve_for(kind, str(benchmark), read_settings(settings), name)
    num_runs = num_runs_of(kind, config, runs)
    growth = None if until is None else make_until(config.benchmark, until, num_runs, max_runs)
    refuse_impossible(config.workload)
    refuse_output(Path(output))
    given = give_matmul(_path(matmul), [config.workload])
    prepared = choose(config, prepare(config, _path(data), quiet=quiet), known={}, given=given, quiet=quiet)
    fitted = kind.fit(options, [prepared.size])
    more = {"keep_weights": keep_weights or None}
    request = asked.request("run", benchmark, more, kind, fitted, num_runs, quiet=quiet)
    request = replace(request, until=growth, keep_weights=keep_weights)
    folder = start_set(config, prepared, request).folder
    link_latest(folder)
    _complete(folder, quiet=quiet)
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
    keep_weights: bool = False,
    matmul: str | Path | None = None,
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
    from harness.run_sets.sweep import prepare_sweep, start_sweep

    seed = draw_base_seed() if seed is None else seed
    asked = _Asked(
        runs, None, None, seed, settings or {}, throughput, quality, matmul, name, division, timeout_s, data, output
    )
    kind, options = asked.kind()
    if keep_weights and not kind.is_scored:
        raise HarnessError("keep_weights is for runs to the target; leave it out.")
    refuse_output(Path(output))
    texts = [f"{key}={','.join(map(_text, values))}" for key, values in axes.items()]
    base, read, configurations = prepare_sweep(
        kind, str(benchmark), read_settings(settings), texts, name, _path(data), matmul=_path(matmul), quiet=quiet
    )
    fitted = kind.fit(options, [each.prepared.size for each in configurations if each.prepared is not None])
    more = {"axis": texts, "keep_weights": keep_weights or None}
    request = asked.request("sweep", benchmark, more, kind, fitted, num_runs_of(kind, base, runs), quiet=quiet)
    folder = start_sweep(read, configurations, replace(request, keep_weights=keep_weights))
    link_latest(folder)
    _complete(folder, quiet=quiet)
    return folder


def serve(
    benchmark: str | Path = "dlrm_small",
    *,
    processes: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
    name: str | None = None,
    division: str | None = None,
    data: str | Path | None = None,
    output: str | Path = "results",
    quiet: bool = True,
) -> Path:
    """Find how many queries a second a model answers within a latency limit, judged by MLPerf LoadGen, in each of
    `processes` fresh processes, 5 by default; returns the measurement's folder below `output`.

    `settings` such as {"serve.target_latency_ms": 25, "serve.percentile": 99, "runtime.precision": "int8"}; `weights`
    is the folder of a set that kept them, with `:RUN` behind it for another run than its first. Without, and without
    "serve.train_samples", weights are random. Raises HarnessError (exit 7) where no rate meets the limit.
    """
    from harness.config.run_config import Override
    from harness.measure.serving.job import KIND
    from harness.measure.serving.loadgen import require_loadgen
    from harness.run_sets.names import find_weights, link_latest
    from harness.run_sets.prepare import num_runs_of, prepare, refuse_impossible, refuse_output, resolve_for
    from harness.run_sets.runner import start_set

    require_loadgen()
    overrides = read_settings(settings)
    if weights is not None:
        kept = str(find_weights(str(weights)).resolve())
        overrides.append(Override(key="serve.weights", value=kept, source="weights"))
    asked = _Asked(
        None, None, None, seed, settings or {}, None, None, None, name, division, None, data, output
    )  # fmt: skip
    config = resolve_for(KIND, str(benchmark), overrides, name)
    num_runs = num_runs_of(KIND, config, processes)
    refuse_impossible(config.workload, is_served=True)
    refuse_output(Path(output))
    prepared = prepare(config, _path(data), quiet=quiet)
    more = {"processes": processes, "weights": weights}
    folder = start_set(
        config, prepared, asked.request("serve", benchmark, more, KIND, {}, num_runs, quiet=quiet)
    ).folder
    link_latest(folder)
    _complete(folder, quiet=quiet)
    return folder


def resume(
    folder: str | Path,
    *,
    runs: int | None = None,
    models: Sequence[str] = (),
    implementations: Sequence[str] = (),
    python: str | Path | None = None,
    quiet: bool = True,
) -> Path:
    """Complete a set, sweep, pair or measurement as it was begun, or have it hold `runs`; returns `folder`.

    Finished runs are kept. `models` and `implementations` are those of the set that are not dlrmbench's own, which
    run only where they are given again, as does `python`, the interpreter of a pair's base. A set that other code
    began is gone on with, after a warning of Python's.
    """
    from harness.run_sets.folder import open_run_set, resuming
    from harness.run_sets.growth import grow
    from harness.run_sets.pair import is_pair, refuse_side
    from harness.run_sets.prepare import check_again, refuse_outside_code
    from harness.run_sets.runner import describe_other_code
    from harness.run_sets.sweep import is_sweep

    folder = Path(folder)
    refuse_outside_code(folder, {"model": models, "implementation": implementations})
    refuse_side(folder)
    holds_several = is_sweep(folder) or is_pair(folder)
    parts = sorted(path.parents[1] for path in folder.glob("*/extra/run_set.json")) if holds_several else [folder]
    for part in parts[:1]:  # all were begun alike
        record = open_run_set(part)[1]
        check_again(folder, record)
        if (other := describe_other_code(part, record)) and not is_pair(folder):  # which is refused
            warnings.warn(other, stacklevel=2)
    with resuming(folder):
        if runs is not None:
            grow(folder, runs)
        _complete(folder, python=program_path(python), quiet=quiet)
    return folder


def _complete(folder: Path, *, python: Path | None = None, quiet: bool) -> None:
    """Run what a set, a sweep, a pair or a measurement lacks, and write its page."""
    from harness.measure.kinds import find_kind
    from harness.run_sets.finish import finish_pair, finish_set, write_folder_page
    from harness.run_sets.folder import locked, open_run_set
    from harness.run_sets.growth import complete_and_grow
    from harness.run_sets.measurement import measure_set
    from harness.run_sets.pair import complete_pair, is_pair
    from harness.run_sets.sweep import complete_sweep, is_sweep

    if is_sweep(folder):
        complete_sweep(folder, quiet=quiet)
        write_folder_page(folder)
        return
    if is_pair(folder):
        finish_pair(folder, complete_pair(folder, python=python, quiet=quiet))
        return
    if python is not None:
        raise HarnessError(f"python is for a pair of run(beside=...), and {folder} is none. Leave it out.")
    run_set, record = open_run_set(folder)
    if find_kind(record.kind).is_scored:
        complete_and_grow(folder, quiet=quiet, on_growth=lambda num_runs: None)
        finish_set(folder)
        return
    with locked(run_set):
        measure_set(run_set, record, lambda index, measured: None, quiet=quiet)


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


@dataclass(frozen=True, slots=True)
class _Asked:
    """What `run` and `sweep` are asked alike, in the order in which their commands name it."""

    runs: int | None
    until: float | None
    max_runs: int | None
    seed: int | None
    settings: Mapping[str, Any]
    throughput: int | None
    quality: int | None
    matmul: str | Path | None
    name: str | None
    division: str | None
    timeout: float | None
    data: str | Path | None
    output: str | Path

    def kind(self) -> "tuple[MeasurementKind, dict[str, int]]":
        """Find the kind of measurement, and what its job is asked. Raises HarnessError where it cannot be."""
        from harness.measure.kinds import find_kind

        given = {name: value for name in _ASKED if (value := getattr(self, name)) is not None}
        if len(given) > 1:
            raise HarnessError(f"{' and '.join(given)} are two measurements; give one of them.")
        if self.max_runs is not None and self.until is None:
            raise HarnessError("max_runs is the end of until; give that too, or runs.")
        if self.until is not None and (given or not 0 < self.until < 1):
            raise HarnessError("until is a fraction above 0 and below 1, for runs to the target.")
        for name, value in given.items():
            if value < 1:
                raise HarnessError(f"{name} is {value}, expected a whole number of at least 1.")
            return find_kind(name), {_ASKED[name]: value}
        return find_kind("training"), {}

    def pair(
        self, benchmark: str | Path | None, beside: str | Path, python: str | Path | None, *, quiet: bool
    ) -> "PairRequest":
        """Make the request that the command line would make for a pair. Raises HarnessError."""
        from harness.run_sets.pair import PairRequest

        kind, options = self.kind()
        if self.until is not None:
            raise HarnessError("beside makes `runs` pairs; leave until and max_runs out.")
        return PairRequest(
            source=Path(beside),
            python=program_path(python),
            benchmark=None if benchmark is None else str(benchmark),
            overrides=read_settings(self.settings),
            matmul=_path(self.matmul),
            name=self.name,
            kind=kind.name if options else None,
            asked=options or None,
            num_runs=self.runs,
            base_seed=self.seed,
            division=self.division,
            timeout_s=self.timeout,
            data_root=_path(self.data),
            output=Path(self.output),
            command=_command("run", benchmark, {"beside": beside, "python": python, **asdict(self)}),
            quiet=quiet,
        )

    def request(
        self,
        verb: str,
        benchmark: str | Path,
        more: Mapping[str, Any],
        kind: "MeasurementKind",
        options: Mapping[str, int],
        num_runs: int,
        *,
        quiet: bool,
    ) -> "RunRequest":
        """Make the request that the command line would make, with that command, which the set keeps on record."""
        from harness.run_sets.runner import RunRequest

        return RunRequest(
            num_runs=num_runs,
            base_seed=self.seed,
            division=self.division,
            timeout_s=self.timeout,
            kind=kind.name,
            options=options,
            output=Path(self.output),
            command=_command(verb, benchmark, {**more, **asdict(self)}),
            quiet=quiet,
        )


def _command(verb: str, benchmark: str | Path | None, asked: Mapping[str, Any]) -> list[str]:
    """Return the command line that does the same."""
    words = ["dlrmbench", verb, *([] if benchmark is None else [str(benchmark)])]
    for name, value in asked.items():
        if name == "settings":
            words += [word for key, given in value.items() for word in ("--set", f"{key}={_text(given)}")]
        elif value is True:
            words.append(f"--{name.replace('_', '-')}")
        else:
            for each in value if isinstance(value, list) else [] if value is None else [value]:
                words += [f"--{name.replace('_', '-')}", str(each)]
    return words


def _text(value: Any) -> str:
    """Write a value as --axis takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)
