"""Define command-line options of a request for an experiment, and make the request that a command line asks for."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from harness.cli.shared.options import (
    MAX_RUNS,
    RUNS,
    FiniteRange,
    ResultPath,
    collect_overrides,
    completing,
    fraction,
    output_option,
    settable_keys,
)
from harness.experiment.request import OPTIONS, Request, flags_of
from harness.foundation.files import resolve_program_path
from harness.measure.kinds import Kind, kinds_asked_by

F = TypeVar("F", bound=Callable[..., Any])


class ProgramPath(click.Path):
    """Type of an option's value: path or name of a program."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return resolve_program_path(value)


KINDS = "kinds"
"""Placeholder in a list of a request's fields, for which `request_options` adds one option for each kind of
measurement that the command has, such as --throughput."""
_TYPES: Mapping[str, Mapping[str, Any]] = {
    "count": {"type": RUNS},
    "index": {"type": click.IntRange(min=0, max=MAX_RUNS - 1)},
    "seed": {"type": click.IntRange(min=0, max=2**31 - 1)},  # the range of drawn seeds
    "seconds": {"type": FiniteRange(min=0, min_open=True)},
    "fraction": {"type": fraction},
    "path": {"type": click.Path(path_type=Path)},
    "program": {"type": ProgramPath()},
    "set": {"type": ResultPath()},
    "text": {},
    "texts": {"multiple": True},
    "flag": {"is_flag": True},
}


def request_options(
    verb: str,
    *members: str,
    help: Mapping[str, str] = MappingProxyType({}),
    flags: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    takes: Callable[[Kind], bool] | None = None,
) -> Callable[[F], F]:
    """Return a decorator that adds options to a click command: one for each field of `Request` named in `members`, in
    this order. Each option has the spelling and the help text that it has in the core's command `verb`, such as
    "run".

    An extension's command gives as `verb` the core's command that it resembles. To differ from that command, `help`
    maps fields to other help texts, and `flags` maps fields to other spellings. `takes` returns whether a kind of
    measurement gets an option; None for all kinds.
    """

    def add(command: F) -> F:
        for member in reversed(members):
            for option in reversed(_options(verb, member, help.get(member), flags.get(member), takes)):
                command = option(command)
        return command

    return add


def _options(
    verb: str,
    member: str,
    own_help: str | None,
    own_flags: tuple[str, ...] | None,
    takes: Callable[[Kind], bool] | None,
) -> list[Callable[[F], F]]:
    if member == KINDS:
        return [
            _kind_option(kind.name, option.member, option.unit, option.help)
            for kind, option in kinds_asked_by(verb)
            if takes is None or takes(kind)
        ]
    option = OPTIONS[member]
    text = own_help or (option.help if isinstance(option.help, str) else option.help[verb])
    if member == "weights":
        takers = [f"--{kind.name}" for kind, _ in kinds_asked_by(verb) if kind.weights_key is not None]
        if not takers:
            return []
        text = own_help or f"With {' and '.join(takers)}: {text}"
    if member == "output":
        return [output_option(text)]
    more: dict[str, Any] = {} if option.unit is None else {"metavar": option.unit}
    more |= {"required": True} if (verb, member) == ("sweep", "axes") else {}
    more |= {"shell_complete": completing(settable_keys)} if member == "axes" else {}
    return [click.option(*(own_flags or flags_of(verb, member)), member, help=text, **_TYPES[option.type], **more)]


def _kind_option(name: str, member: str | None, unit: str, text: str) -> Callable[[F], F]:
    if member is None:
        return click.option(f"--{name}", f"kind_{name}", is_flag=True, default=None, help=text)
    return click.option(f"--{name}", f"kind_{name}", type=click.IntRange(min=1), metavar=unit, help=text)


def _find_beside(beside: Path, output: Path) -> Path:
    """Return the folder of the run set that is called `beside` in the folder `output` (option -o). Return `beside`
    itself where it is a path, or where no run set in `output` has that name."""
    from harness.run_sets.names import find_named

    found = [] if os.path.lexists(beside) else find_named(str(beside), output)
    if len(found) > 1:
        listed = "".join(f"\n  {folder}" for folder in found)
        raise click.UsageError(f"{str(beside)!r} is the name of several sets; give one of them:{listed}")
    return found[0] if found else beside


def _lasting_words(words: Sequence[str], output: Path | None) -> list[str]:
    """Return the command line with links to run sets, such as `latest`, replaced by their folders, since links
    change."""
    from harness.run_sets.names import find_results_folder, led_to

    places = [find_results_folder(), *([] if output is None else [output])]
    names_set = {
        flag: isinstance(option.type, ResultPath) or option.name == "weights"
        for option in click.get_current_context().command.params
        if isinstance(option, click.Option) and not option.is_flag
        for flag in option.opts
    }
    lasting = list(words)
    for at, word in enumerate(words):
        option, equals, value = word.partition("=") if word.startswith("--") else (words[at - 1], "", word)
        if at and value and names_set.get(option, not equals):  # a word that is no option's value is an argument
            lasting[at] = f"{option if equals else ''}{equals}{led_to(value, *places)}"
    return lasting


def read_request(verb: str, benchmark: str | None, given: Mapping[str, Any], **more: Any) -> Request:
    """Return the request for an experiment that a command line asks for. `verb` is the command, `given` are its
    parsed options, and `more` are further fields of the request."""
    from harness.run_sets.names import led_to

    source = click.get_current_context().get_parameter_source("benchmark")
    members = {name: value for name, value in given.items() if name in Request.__dataclass_fields__}
    kinds = {
        name.removeprefix("kind_"): None if value is True else value
        for name, value in given.items()
        if name.startswith("kind_") and value is not None and value is not False
    }
    if (beside := members.get("beside")) is not None:
        beside = beside if members.get("output") is None else _find_beside(beside, members["output"])
        members["beside"] = Path(led_to(str(beside)))
    overrides = [*collect_overrides(given), *more.pop("overrides", ())]
    return Request(
        **{
            **members,
            "verb": verb,
            "benchmark": None if source is ParameterSource.DEFAULT else benchmark,
            "kinds": kinds,
            "data": given["data_root"],
            "overrides": overrides,
            "typed": ["dlrmbench", *_lasting_words(sys.argv[1:], members.get("output"))],
            **more,
        }
    )
