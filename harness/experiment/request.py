"""What can be asked of `run`, `sweep`, `profile` and extensions' verbs; commands and the API make the same record."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from harness.config.run_config import Override
from harness.foundation.errors import HarnessError
from rules.records.experiment import StopRecord


class RequestError(HarnessError):
    """What is asked for does not go together."""


class RequestOption(NamedTuple):
    """How command lines ask for a member of the request."""

    help: str | Mapping[str, str]
    """What `--help` says, of all verbs or by verb."""
    type: str = "text"
    """One of count, index, seed, seconds, fraction, path, program, set, text, texts, flag."""
    flags: tuple[str, ...] | Mapping[str, tuple[str, ...]] = ()
    """How the option is written, by all verbs or by verb; by its name where nothing is said."""
    unit: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What somebody asks for, before anything of it is looked at. What is None or empty was not asked."""

    verb: str = "run"
    like: str | None = None
    """The verb of the core whose kinds of measurement an extension's verb has."""
    benchmark: str | None = None
    """The name or path of a definition; None is dlrm_small, or beside a set that set's own."""
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
    """Values by `section.key`, as the API is given them."""
    kinds: Mapping[str, int | None] = field(default_factory=dict)
    """The kinds of measurement that were asked for, each with the number it was asked; empty is training."""
    matmul: Path | None = None
    name: str | None = None
    division: str | None = None
    timeout_s: float | None = None
    data: Path | None = None
    output: Path = Path("results")
    run_index: int | None = None
    prepare: str | None = None
    """A command of the shell before each repetition, off its clock."""
    cleanup: str | None = None
    """The same after each repetition, however it ended."""
    power_command: str | None = None
    """A command of the shell that prints watts, asked while a repetition is timed; its energy is what is recorded."""
    log_to: Path | None = None
    """The file to which what happens is appended, a line of JSON each."""
    order: str = "turns"
    """In what order the repetitions of several configurations are made: a name of `orders.ORDERS`."""
    relation: str | None = None
    """What configurations are to each other: a name of `relation.RELATIONS` or of an extension. None is
    what the verb says, and beside a set two sides."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """What an extension's verb calls members otherwise than the core's do: the option; empty where it implies one."""
    asked: Any = None
    """What a relation of an extension is asked besides."""
    stop: StopRecord | None = None
    """The rule by which a group is extended from what is measured; `until` is that of a set alone."""
    overrides: Sequence[Override] = ()
    """All changes of the definition, weakest first, `settings` among them."""
    typed: Sequence[str] = ()
    """The command line, where there was one."""
    quiet: bool = False

    @property
    def benchmark_named(self) -> str:
        """Return the name or path of the definition that is asked for."""
        return self.benchmark or "dlrm_small"

    def command(self) -> list[str]:
        """Return the command line that asks for this: the one that was typed, else the one that does the same."""
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
        """Return what whoever asks calls a member: an option of the command line, or an argument of the API."""
        return self._flag(member) if self.typed else member

    def _flag(self, member: str) -> str:
        return self.flags.get(member) or flags_of(self.verb, member)[-1]


OPTIONS: Mapping[str, RequestOption] = {
    "axes": RequestOption(
        help="What to vary; repeatable: all combinations are run.",
        type="texts",
        flags=("--axis",),
        unit="SECTION.KEY=V1,V2",
    ),
    "beside": RequestOption(
        help="Measure SET's configuration again and this one in turns, with equal seeds, and compare them.",
        type="set",
        unit="SET",
    ),
    "python": RequestOption(
        help="Interpreter whose dlrmbench runs the base of --beside, such as OTHER/bin/python.  [default: this one]",
        type="program",
        unit="PYTHON",
    ),
    "weights": RequestOption(
        help="weights that 'run --keep-weights' kept.",
        unit="SET[:RUN]",
    ),
    "keep_weights": RequestOption(
        help={
            "run": "Keep the weights that each run ends with, in extra/run_<i>/weights.",
            "sweep": "Keep the weights that each run ends with, as 'run' does.",
        },
        type="flag",
    ),
    "with_profile": RequestOption(
        help="Profile each configuration once, after all runs: the table then says what bounds its step.",
        type="flag",
        flags=("--profile",),
    ),
    "with_fit": RequestOption(
        help="Of --quality: fit normalised entropy = a C^-b + c over training FLOP C, of 4 sizes or more over a "
        "decade.",
        type="flag",
        flags=("--fit",),
    ),
    "strict_env": RequestOption(help="Do not run (exit 6) where the environment check warns.", type="flag"),
    "runs": RequestOption(
        help={
            "run": "Runs.  [default: the benchmark's number]",
            "sweep": "Runs of each configuration.",
        },
        type="count",
        flags={"run": ("-n", "--runs"), "sweep": ("-n", "--runs")},
    ),
    "until": RequestOption(
        help="Add runs until the mean time to train is known to FRACTION, such as 3%: its interval is that narrow.",
        type="fraction",
        unit="FRACTION",
    ),
    "max_runs": RequestOption(help="Most runs that --until makes.  [default: 30]", type="count"),
    "seed": RequestOption(
        help={
            "run": "Base seed, to reproduce a set.  [default: drawn, logged]",
            "sweep": "Base seed that all configurations share.  [default: drawn]",
        },
        type="seed",
    ),
    "matmul": RequestOption(
        help="How 'optimized' computes its matrix products on a CPU: another set's run_set.json, or the "
        "matmul.json of its page.  [default: timed once]",
        type="path",
        unit="FILE",
    ),
    "timeout_s": RequestOption(
        help="Seconds a run may take; one that cannot end by itself any more is then killed.",
        type="seconds",
        flags=("--timeout",),
    ),
    "output": RequestOption(
        help={
            "run": "Folder in which the set's own folder is made.",
            "sweep": "Folder in which the sweep's folder is made.",
            "profile": "Folder in which the profile's own folder is made, or a run set of the same configuration.",
        },
        type="path",
        flags=("-o", "--output"),
    ),
    "prepare": RequestOption(
        help="Run CMD by the shell before each run, off its clock; where it fails, nothing more is run (exit 2).",
        unit="CMD",
    ),
    "cleanup": RequestOption(help="The same after each run, however that ended.", unit="CMD"),
    "power_command": RequestOption(
        help="Measure energy by the watts that CMD prints, run by the shell each second, not by RAPL and NVML.",
        unit="CMD",
    ),
    "log_to": RequestOption(
        help="Append what happens, as it happens, to FILE.jsonl: a line of JSON each ('schema event').",
        type="path",
        unit="FILE.jsonl",
    ),
    "run_index": RequestOption(
        help="Be one rank of this run, in a world that torchrun or srun started; -o is then the set itself.",
        type="index",
    ),
}
"""How command lines ask for members of a request; for the others they do otherwise, or not at all."""


def flags_of(verb: str, member: str) -> tuple[str, ...]:
    """Return how an option is written on a command line: short form first, if it has one."""
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
    """Write one member as a command line does; nothing where it was not asked."""
    if isinstance(value, Mapping):
        return [word for key, given in value.items() for word in (flag, f"{key}={as_text(given)}")]
    if value is None or value is False:
        return []
    if value is True:
        return [flag]
    values = [value] if isinstance(value, str | Path | int | float) else value
    return [word for each in values for word in (flag, str(each))]


def as_text(value: Any) -> str:
    """Write a value as --set and --axis take it."""
    return value if isinstance(value, str) else json.dumps(value)
