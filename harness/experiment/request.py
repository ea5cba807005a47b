"""Describe what a user asks of `run`, `sweep`, `profile` and extensions' commands, whether on the command line or
through the Python API."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from harness.config.run_config import Override
from harness.foundation.errors import HarnessError
from rules.records.experiment import StopRecord


class RequestError(HarnessError):
    """Error of a user's request whose arguments contradict each other, or do not fit the command."""


class RequestOption(NamedTuple):
    """Definition of the command-line option for one field of `Request`."""

    help: str | Mapping[str, str]
    """Text of the command-line option in `--help`: one text for all commands, or a text for each command."""
    type: str = "text"
    """Type of the option's value: one of count, index, seed, seconds, fraction, path, program, set, text, texts,
    flag."""
    flags: tuple[str, ...] | Mapping[str, tuple[str, ...]] = ()
    """Spellings of the option: the same for all commands, or a dict from the command to its spellings. Empty where
    the spelling follows from the field's name."""
    unit: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """User's request for an experiment, before any of it is read or checked. A field that is None or empty was not
    given."""

    verb: str = "run"
    like: str | None = None
    """Command of the core, such as `sweep`, whose kinds of measurement this extension's command also has. None if the
    command has kinds of its own."""
    benchmark: str | None = None
    """Name or path of a benchmark definition. None stands for the definition of the existing run set with --beside,
    else for dlrm_small."""
    axes: Sequence[str] = ()
    beside: Path | None = None
    python: Path | None = None
    weights: str | None = None
    keep_weights: bool = False
    with_profile: bool = False
    with_fit: bool = False
    strict_env: bool = False
    runs: int | None = None
    until: float | None = None
    max_runs: int | None = None
    seed: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values of the configuration by `section.key`, as callers of the API give them."""
    kinds: Mapping[str, int | None] = field(default_factory=dict)
    """Requested kinds of measurement, each with its number (of steps, samples, …) or None; empty for training to the
    target."""
    matmul: Path | None = None
    name: str | None = None
    division: str | None = None
    timeout_s: float | None = None
    data: Path | None = None
    output: Path = Path("results")
    run_index: int | None = None
    prepare: str | None = None
    """User's shell command before each repetition, outside its timed part; None for none."""
    cleanup: str | None = None
    """User's shell command after each repetition, however it ended, outside its timed part; None for none."""
    power_command: str | None = None
    """User's shell command that prints watts, run while a repetition is timed; the recorded energy is computed from
    these watts. None where no such command is given."""
    log_to: Path | None = None
    """File to which the experiment's events are appended, one line of JSON each; None for no such file."""
    order: str = "turns"
    """Name, from `orders.ORDERS`, of the order in which repetitions of several configurations are made."""
    relation: str | None = None
    """Name of the relation between the configurations, from `relation.RELATIONS` or an extension, such as one (a
    single configuration), sides (a pair) or matrix (a sweep). If None, the option --beside decides: with it the
    relation is a pair, without it the usual one of the command."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Dict from a request's fields to options that an extension's command spells differently from the core's command.
    An option is empty if the command lacks it, because it always gives the field the same value."""
    asked: Any = None
    """Further arguments that only an extension's command has, in a record of the extension; None for commands of the
    core."""
    stop: StopRecord | None = None
    """Stop rule, which adds repetitions or configurations depending on the measurements so far; None without one. For
    a single configuration, `until` is given instead."""
    overrides: Sequence[Override] = ()
    """All changes that the user makes to the benchmark definition, weakest first, including `settings`."""
    typed: Sequence[str] = ()
    """Arguments of the command line as typed; empty for an API call."""
    quiet: bool = False

    @property
    def benchmark_named(self) -> str:
        """Name or path of the requested benchmark definition."""
        return self.benchmark or "dlrm_small"

    def command(self) -> list[str]:
        """Return the command line of the request: the typed one, or an equivalent one for an API call."""
        if self.typed:
            return list(self.typed)
        words = ["dlrmbench", self.verb, *([] if self.benchmark is None else [self.benchmark])]
        for kind, number in self.kinds.items() if "kinds" not in self.flags else ():
            words += _words(f"--{kind}", True if number is None else number)
        for member in fields(self):
            if member.name not in _NOT_OPTIONS:
                words += _words(self._flag(member.name), getattr(self, member.name))
        return words

    def spelled(self, member: str) -> str:
        """Return the user's name for a field of the request: an option on the command line, an argument in the
        API."""
        return self._flag(member) if self.typed else member

    def _flag(self, member: str) -> str:
        return self.flags.get(member) or flags_of(self.verb, member)[-1]


OPTIONS: Mapping[str, RequestOption] = {
    "axes": RequestOption(
        help="Configuration key to vary, with its values; repeatable: all combinations are run.",
        type="texts",
        flags=("--axis",),
        unit="SECTION.KEY=V1,V2",
    ),
    "beside": RequestOption(
        help="Measure SET's configuration and the one given here alternately (A/B), with equal seeds, and compare "
        "the two.",
        type="set",
        unit="SET",
    ),
    "python": RequestOption(
        help="With --beside SET: Python interpreter that runs SET's configuration, with the dlrmbench installed for "
        "that interpreter, such as OTHER/bin/python.  [default: this interpreter]",
        type="program",
        unit="PYTHON",
    ),
    "weights": RequestOption(
        help="weights of the model, which 'run --keep-weights' wrote.",
        unit="SET[:RUN]",
    ),
    "keep_weights": RequestOption(
        help={
            "run": "Keep the final weights of each run, in extra/run_<i>/weights.",
            "sweep": "Keep the final weights of each run, as 'run --keep-weights' does.",
        },
        type="flag",
    ),
    "with_profile": RequestOption(
        help="Profile each configuration once, after all runs: adds the bottleneck of its training step to the "
        "results' table.",
        type="flag",
        flags=("--profile",),
    ),
    "with_fit": RequestOption(
        help="With --quality: fit a scaling law, normalised entropy = a C^-b + c over training FLOP C; needs at "
        "least 4 values of C that span a factor of 10.",
        type="flag",
        flags=("--fit",),
    ),
    "strict_env": RequestOption(help="Do not run (exit 6) if the check of the environment warns.", type="flag"),
    "runs": RequestOption(
        help={
            "run": "Number of runs in the run set.  [default: the benchmark's number of runs]",
            "sweep": "Number of runs of each configuration.",
        },
        type="count",
        flags={"run": ("-n", "--runs"), "sweep": ("-n", "--runs")},
    ),
    "until": RequestOption(
        help="Add runs until the confidence interval of the mean time to train is within FRACTION of that mean, such "
        "as 3%.",
        type="fraction",
        unit="FRACTION",
    ),
    "max_runs": RequestOption(
        help="Largest number of runs that a set with --until may have.  [default: 30]", type="count"
    ),
    "seed": RequestOption(
        help={
            "run": "Base seed from which all runs' seeds follow, to reproduce a set.  [default: drawn, logged]",
            "sweep": "Base seed that all configurations share.  [default: drawn]",
        },
        type="seed",
    ),
    "matmul": RequestOption(
        help="File with the choice of matrix-product kernels that the implementation 'optimized' uses on a CPU: "
        "run_set.json of another set, or matmul.json from another set's page.  [default: the fastest kernels, timed "
        "once]",
        type="path",
        unit="FILE",
    ),
    "timeout_s": RequestOption(
        help="Longest time of a run, in seconds; a run that takes longer is killed.",
        type="seconds",
        flags=("--timeout",),
    ),
    "output": RequestOption(
        help={
            "run": "Folder in which the run set's own folder is made.",
            "sweep": "Folder in which the sweep's folder is made.",
            "profile": "Folder in which the profile's own folder is made, or folder of a run set with the same "
            "configuration, to which the profile is added.",
        },
        type="path",
        flags=("-o", "--output"),
    ),
    "prepare": RequestOption(
        help="Shell command to run before each run, outside the timed part; if it fails, nothing more is run (exit "
        "2).",
        unit="CMD",
    ),
    "cleanup": RequestOption(
        help="Shell command to run after each run, outside the timed part, however the run ended.", unit="CMD"
    ),
    "power_command": RequestOption(
        help="Measure energy by this shell command, instead of by RAPL and NVML; the command is run every second "
        "and prints watts.",
        unit="CMD",
    ),
    "log_to": RequestOption(
        help="Append each event of the runs to FILE.jsonl when it happens, as a line of JSON (described by 'schema "
        "event').",
        type="path",
        unit="FILE.jsonl",
    ),
    "run_index": RequestOption(
        help="Train as one rank of the run with this number, where torchrun or srun starts the ranks; with "
        "--run-index, -o is the run set's own folder.",
        type="index",
    ),
}
"""Command-line options of the fields of `Request`; the keys are the fields. Some fields without an entry here, such
as `settings` and `data`, have options that `harness.cli.shared.options` declares. The options of `kinds` are
generated. The other fields have no option."""


def flags_of(verb: str, member: str) -> tuple[str, ...]:
    """Return the spellings of the option for a request's field on a command's command line, short form first."""
    option = OPTIONS.get(member)
    default = (f"--{_NAMES.get(member, member).replace('_', '-')}",)
    if option is None:
        return default
    return (option.flags.get(verb, default) if isinstance(option.flags, Mapping) else option.flags) or default


_NOT_OPTIONS = frozenset(
    {
        "verb",
        "like",
        "benchmark",
        "kinds",
        "order",
        "relation",
        "flags",
        "asked",
        "stop",
        "overrides",
        "typed",
        "quiet",
    }
)
_NAMES = {"settings": "set"}


def _words(flag: str, value: Any) -> list[str]:
    """Return the command-line arguments for one field of a request; none where the field was not given."""
    if isinstance(value, Mapping):
        return [word for key, given in value.items() for word in (flag, f"{key}={as_text(given)}")]
    if value is None or value is False:
        return []
    if value is True:
        return [flag]
    values = [value] if isinstance(value, str | Path | int | float) else value
    return [word for each in values for word in (flag, str(each))]


def as_text(value: Any) -> str:
    """Return a configuration value as the text that --set and --axis take."""
    return value if isinstance(value, str) else json.dumps(value)
