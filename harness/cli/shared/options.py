"""Define options that several commands share, and shell completion of their values. Imports few modules, so that
--help and quick commands start fast."""

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from reference_models.config.exchange import COMM_PRECISIONS, SHARDING_TYPES

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from harness.config.run_config import Override

F = TypeVar("F", bound=Callable[..., Any])

Complete = Callable[[click.Context, click.Parameter, str], list[str]]
MAX_RUNS = 100_000
"""Largest number of runs of one run set. A seed is recorded for every planned run: with more runs, the seeds would
fill memory before the first run begins."""
RUNS = click.IntRange(min=1, max=MAX_RUNS)
_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(us|ms|s|min|h)")
_MILLISECONDS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6}


def completing(names: Callable[[], Iterable[str]]) -> Complete:
    """Return a function with which a shell completes an option's value: it returns the names that begin with the
    typed text."""
    return lambda ctx, param, incomplete: [name for name in names() if name.startswith(incomplete)]


def completing_several(names: Callable[[], Iterable[str]]) -> Complete:
    """Return a function with which a shell completes an option's comma-separated names: it completes the last one,
    and offers no name twice."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        given = before.split(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last) and name not in given]

    return complete


def completing_or_files(names: Callable[[], Iterable[str]]) -> "Callable[..., list[CompletionItem]]":
    """Return a function with which a shell completes an option's value by names; where no name begins with the typed
    text, the shell completes file names."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        found = completing(names)(ctx, param, incomplete)
        return [CompletionItem(name) for name in found] or [CompletionItem(incomplete, type="file")]

    return complete


def settable_keys() -> Iterable[str]:
    """Return the configuration keys that --set and --axis take, each once and with an equals sign at its end. The
    keys are those of all models and all kinds of data."""
    from dataclasses import fields

    from harness.config.reference import SECTIONS
    from harness.config.run_config import OVERRIDABLE

    known = [(name, record) for name, _, record in SECTIONS if name.partition(".")[0] in OVERRIDABLE]
    return dict.fromkeys(f"{name}.{entry.name}=" for name, record in known for entry in fields(record))


def _implementations() -> tuple[str, ...]:
    from reference_models.registry import MODELS, find_model

    return tuple(dict.fromkeys(name for model in MODELS for name in find_model(model).implementations))


def benchmarks() -> Iterable[str]:
    """Return the names of the shipped benchmarks."""
    from rules.benchmarks.loader import shipped_names

    return shipped_names()


def completing_definitions(names: Callable[[], Iterable[str]]) -> Complete:
    """Return a function with which a shell completes an option's value by names of shipped benchmarks and, after an
    @, by versions of the benchmark."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        from rules.benchmarks.loader import shipped_versions

        name, at, _ = incomplete.partition("@")
        known = [f"{name}@{each.version}" for each in shipped_versions(name)] if at else names()
        return [each for each in known if each.startswith(incomplete)]

    return complete


def trainable() -> Iterable[str]:
    """Return the names of the shipped benchmarks that can be trained here."""
    from harness.config.catalog import has_implementation
    from rules.benchmarks.loader import load_benchmark

    return (name for name in benchmarks() if has_implementation(load_benchmark(name)))


def system_names() -> Iterable[str]:
    """Return the names of the known reference systems (whose measured results others may be compared with)."""
    from reports.results.reference_systems import known_bundles

    return [path.stem for path in known_bundles()]


def is_published(reference: str | None) -> bool:
    """Return whether a value of --with names a table of published results: 'published', or 'published:FILE'."""
    return reference is not None and reference.partition(":")[0] == "published"


def close_systems_after(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Remove the unpacked folders of reference bundles (archives of a system's results) when the command
    ends."""
    if value is not None:
        from reports.results.reference_systems import close_systems

        ctx.call_on_close(close_systems)
    return value


def duration(text: str) -> float:
    """Return a duration such as 25ms or 0.1s in milliseconds. Raises BadParameter, also for a number without a
    unit."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r} is not a duration with a unit above 0. Write it like 25ms or 0.1s.")
    milliseconds = float(match[1]) * _MILLISECONDS[match[2]]
    if milliseconds <= 0:
        raise click.BadParameter(f"{text!r} must be above 0.")
    if not math.isfinite(milliseconds):
        raise click.BadParameter(f"{text[:40]!r} is too large.")
    return milliseconds


def seconds(text: str) -> float:
    """Return a duration such as 20s, 2min or 12h in seconds. Raises BadParameter, also for a number without a
    unit."""
    return duration(text) / 1e3


class ResultPath(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Type of an option's value: a path, or the name of a run set or sweep in the results folder. The name is the
    folder's name, the name that --name gave it, or `latest`.

    A word that is neither an existing path nor a name is returned as a path. The command refuses this path later, so
    that errors in the rest of the command line are reported first.
    """

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        from harness.run_sets.names import find_named, find_results_folder

        path = Path(value)
        if os.path.lexists(path) or str(value) == "-":
            return path
        found = find_named(str(value), find_results_folder())
        if len(found) > 1:
            listed = "".join(f"\n  {folder}" for folder in found)
            self.fail(f"{value!r} is the name of several sets; give one of them:{listed}", param, ctx)
        return found[0] if found else path

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        from harness.run_sets.names import find_results_folder, names_to_give

        found = [name for name in names_to_give(find_results_folder()) if name.startswith(incomplete)]
        return [CompletionItem(name) for name in found] or [CompletionItem(incomplete, type="file")]


def distinct(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return each given folder or file once. Of several paths to one folder the first is returned: 'results/*' has
    both the newest run set and `latest`, a link to it.

    Raises InputError for a word that is neither a path nor the name of a run set or sweep.
    """
    from harness.run_sets.names import refuse_missing
    from rules.tree.result_set import real_path

    paths = list(paths)
    refuse_missing(paths)
    return tuple({real_path(path): path for path in reversed(paths)}.values())[::-1]


RULESET = click.option(
    "--ruleset",
    metavar="ROUND",
    help="MLPerf round by whose rules logs are judged, such as 5.1.  [default: inferred]",
)
BENCHMARK = click.argument("benchmark", default="dlrm_small", shell_complete=completing_definitions(trainable))


def _refuse_unnamed_link(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Raise HarnessError (exit 8) where an option's default folder, which the user did not name, is a link."""
    folder = Path("data") if value is None else value
    is_default = ctx.get_parameter_source(str(param.name)) == ParameterSource.DEFAULT
    if is_default and not ctx.resilient_parsing:
        always = f", or set {param.envvar}={folder} for all commands" if isinstance(param.envvar, str) else ""
        refuse_unnamed(folder, f"give {param.opts[-1]} {folder}{always}")
    return value


def refuse_unnamed(folder: Path, how: str) -> None:
    """Raise HarnessError (exit 8) if `folder`, which the user did not name, is a link. `how` tells the user, in the
    message, how to name the folder.

    In a stranger's folder a link may lead to one of the user's own folders. The link's owner does not show who made
    it: a link unpacked from an archive belongs to the user who unpacked it.
    """
    from harness.foundation.errors import ExitCode, HarnessError

    if folder.is_symlink():
        words = f"{folder} is a link that you did not name. To use its target, {how}."
        raise HarnessError(words, ExitCode.INPUT)


def _data_option(callback: Callable[..., Path | None] | None) -> Callable[[F], F]:
    return click.option(
        "--data",
        "data_root",
        type=click.Path(path_type=Path),
        envvar="DLRMBENCH_DATA",
        callback=callback,
        help="Folder of datasets, or the folder of one dataset.  [default: ./data]",
    )


def value_option(flag: str, name: str, text: str) -> Callable[[F], F]:
    """Return a repeatable option for configuration values, SECTION.KEY=VALUE."""
    return click.option(
        flag,
        name,
        multiple=True,
        metavar="SECTION.KEY=VALUE",
        shell_complete=completing(settable_keys),
        help=text,
    )


DATA = _data_option(_refuse_unnamed_link)
"""Option --data (folder of datasets) of commands that may create datasets; it refuses a default folder that is a
link."""
READ_DATA = _data_option(None)
"""Option --data (folder of datasets) of commands that only read datasets."""
MODEL = click.option(
    "--model",
    metavar="FILE.py:OBJECT",
    help="Your own model, for a definition whose benchmark.model is neither shipped nor in an installed package.",
)
DEFINITION = click.option(
    "--benchmark",
    "benchmark_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML definition of your own benchmark; needed only if there is no extra/definition.toml beside the logs.",
)
WITH = click.option(
    "--with",
    "reference",
    metavar="NAME|FILE",
    shell_complete=completing_or_files(lambda: (*system_names(), "published")),
    callback=close_systems_after,
    help="Also show the results of a reference system, given by its name in 'dlrmbench list --systems' or by a "
    "bundle's FILE. With 'published' or 'published:TABLE.json', the given results of MLPerf's benchmarks are ranked "
    "among the results that MLPerf published.",
)
NO_SECOND_OPINION = click.option("--no-second-opinion", is_flag=True, help="Do not run MLPerf's official checkers.")
QUIET = click.option("-q", "--quiet", is_flag=True, help="Print no progress; warnings are still printed.")

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?(/S)?", re.IGNORECASE)
_DEFINING = (
    click.option(
        "-c",
        "--config",
        "config_file",
        type=click.Path(path_type=Path),
        help="TOML file with values of the sections [train], [runtime], [submission] and others.",
    ),
    value_option("--set", "assignments", "Set one value of the configuration; repeatable."),
    click.option(
        "--name",
        help="Label of this configuration, part of its folder's name. If --set changes a value that the "
        "benchmark's definition fixes, a new benchmark is run, which has this label as its name.",
    ),
    DATA,
)
_CONFIGURATION = (
    *_DEFINING,
    click.option(
        "--device",
        shell_complete=completing(lambda: ("cpu", "cuda")),
        help="Device that computes: cpu, cuda or cuda:N.",
    ),
    click.option(
        "--threads",
        type=click.IntRange(min=1),
        help="Number of CPU threads.  [default: the fastest number, timed once]",
    ),
    click.option(
        "--implementation",
        shell_complete=completing(_implementations),
        help="Code that trains: reference, optimized, torchrec, or your own FILE.py:OBJECT.  [default: reference]",
    ),
    MODEL,
    click.option(
        "--ranks",
        type=click.IntRange(min=1),
        help="Number of processes (ranks) of one run; several only with torchrec.  [default: 1]",
    ),
    click.option(
        "--sharding",
        shell_complete=completing(lambda: SHARDING_TYPES),
        help=f"How torchrec shards tables over ranks: {', '.join(SHARDING_TYPES)}, or plan:FILE from 'place'.  "
        "[default: auto]",
    ),
    click.option(
        "--comm",
        shell_complete=completing(lambda: COMM_PRECISIONS),
        help="Precision in which torchrec sends embeddings: fp32, fp16, int8; on GPUs also bf16, fp8. "
        "FORWARD/BACKWARD, such as fp16/bf16, gives each direction its own precision.  [default: fp32]",
    ),
    click.option(
        "--grad-comm",
        shell_complete=completing(lambda: ("dense", "fp16", "powersgd:", "topk:")),
        help="How torchrec sends dense gradients: dense, fp16, powersgd:RANK or topk:DENSITY.  [default: dense]",
    ),
    click.option(
        "--division",
        type=click.Choice(["closed", "open"]),
        help="Division of the results: closed (as MLPerf's: same model, data and optimizer) or open.  [default: "
        "open for MLPerf's own benchmarks, closed for all other benchmarks]",
    ),
    click.option("--submitter", help="Organisation that submits, named in the logs and the system description."),
)


class FiniteRange(click.FloatRange):
    """Type of an option's value: a finite number in a range. Without this class nan would pass any bound, and
    infinity would reach records, which cannot hold it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class SizeParam(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Type of an option's value: bytes, or bytes per second, with a unit: 141GB, 96GiB; 4.8TB/s, 450GB.

    A number without a unit is refused, unless `takes_bytes` says that it means bytes.
    """

    def __init__(self, *, is_rate: bool = False, takes_bytes: bool = False) -> None:
        self.name = "size/s" if is_rate else "size"
        self._is_rate, self._takes_bytes = is_rate, takes_bytes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip()
        like = "450GB/s or 4.8TB/s" if self._is_rate else "141GB or 96GiB"
        if not self._takes_bytes and re.fullmatch(r"(?a:\d+\.?\d*|\.\d+)", text):
            self.fail(f"{text!r} has no unit. Write it like {like}.", param, ctx)
        match = _SIZE.fullmatch(text)
        if match is None or (match[3] and not self._is_rate):
            self.fail(f"{text!r} is not a number with a unit. Write it like {like}.", param, ctx)
        number = float(match[1]) * _UNITS[(match[2] or "").upper()]
        if not 1 <= number < 2**63:
            self.fail(f"{text!r:.80} must be from 1 byte to below 2^63. Write it like {like}.", param, ctx)
        return int(number)


def fraction(text: str) -> float:
    """Return a fraction from text such as '3%' or '0.03'. Raises BadParameter."""
    number = text.strip()
    try:
        value = float(number.removesuffix("%")) / (100.0 if number.endswith("%") else 1.0)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1.0:
        raise click.BadParameter(f"{text!r}: expected a fraction from 0 to below 1, such as 3% or 0.03.")
    return value


def output_option(text: str, *names: str) -> Callable[[F], F]:
    """Return the option -o (or the options in `names`): a folder for results, ./results by default."""
    return click.option(
        *(names or ("-o", "--output")),
        type=click.Path(path_type=Path),
        default=Path("results"),
        show_default=True,
        envvar="DLRMBENCH_OUTPUT",
        help=text,
        callback=_refuse_unnamed_link,
    )


def configuration(command: F, options: Iterable[Callable[[F], F]] = _CONFIGURATION) -> F:
    """Add to a command -c, --set, --name and the options for single configuration keys."""
    for option in reversed(tuple(options)):
        command = option(command)
    return command


def defining(command: F) -> F:
    """Add to a command the options that define the training problem: -c, --set, --name, --data, --model."""
    return configuration(command, (*_DEFINING, MODEL))


_SECTIONS = {
    **dict.fromkeys(
        ("device", "threads", "implementation", "model", "ranks", "sharding", "comm", "grad_comm"), "runtime"
    ),
    "submitter": "submission",
}
"""Section of the configuration key that an option sets; the dict maps an option's name to the section."""


def collect_overrides(given: Mapping[str, Any]) -> "list[Override]":
    """Return all configuration values that the user changes, weakest first: in the configuration file, in the
    environment, with --set, with an option of their own."""
    from harness.config.run_config import Override, read_config_file, read_environment, read_set_option

    config_file = given["config_file"]
    overrides = read_config_file(config_file) if config_file is not None else []
    overrides += read_environment(os.environ)
    overrides += [read_set_option(text) for text in given["assignments"]]
    for name, value in given.items():
        if value is not None and (section := _SECTIONS.get(name)) is not None:
            source = f"option --{name.replace('_', '-')}"
            overrides.append(Override(key=f"{section}.{name}", value=value, source=source))
    return overrides
