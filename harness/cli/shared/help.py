"""Lay out a command's `--help`: options under headings, and examples at the end. Imports only click."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

COMMON = "Common options"
_COMMON = ("runs", "num_runs", "assignments", "implementation", "name", "output", "form", "verbose", "quiet")
"""Names of the parameters whose options most users need, in the order in which a command's help lists them. They come
after the command's own options."""
HEADINGS: Mapping[str, tuple[str, ...]] = {
    "Data and model": ("config_file", "data_root", "model", "matmul"),
    "Device and ranks": ("device", "threads", "ranks", "sharding", "comm", "grad_comm"),
    "Runs": ("seed", "timeout_s", "until", "max_runs", "strict_env", "keep_weights", "run_index"),
    "Pairs": ("beside", "python"),
    "Around each run": ("prepare", "cleanup", "power_command", "log_to"),
    "Rules": ("division", "submitter"),
}
"""Headings in a command's help, each with the names of the parameters whose options stand below it. Options that are
not listed here are a command's own and come first."""
MEASURED_INSTEAD = "Measure something else"
_FEW = 9
"""Largest number of options that a command's help shows without headings."""


class HelpedCommand(click.Command):
    """Command whose help sorts its options under headings, and ends with examples."""

    def __init__(
        self,
        *args: Any,
        examples: Iterable[str] = (),
        headings: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
        **attrs: Any,
    ) -> None:
        super().__init__(*args, **attrs)
        self.examples = tuple(examples)
        self._headings = headings

    def sort_options(self, ctx: click.Context) -> dict[str, list[click.Option]]:
        """Return the command's options by their heading in the help; hidden options are left out."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option) and not each.hidden]
        if len(options) <= _FEW and not self._headings:
            return {"Options": options}
        own = {name: heading for heading, names in self._headings.items() for name in names}
        shared = {name: heading for heading, names in HEADINGS.items() for name in names} | own
        found: dict[str, list[click.Option]] = {name: [] for name in (COMMON, *self._headings, MEASURED_INSTEAD)}
        found |= {name: [] for name in HEADINGS if name not in found}
        for option in options:
            name = str(option.name)
            is_kind = name.startswith("kind_") and name not in own
            found[MEASURED_INSTEAD if is_kind else shared.get(name, COMMON)].append(option)
        found[COMMON].sort(key=_common_place)
        return {heading: members for heading, members in found.items() if members}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's options below their headings."""
        for heading, options in self.sort_options(ctx).items():
            with formatter.section(heading):
                formatter.write_dl([record for each in options if (record := each.get_help_record(ctx)) is not None])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's examples as unwrapped lines, so that each can be copied."""
        write_examples(self.examples, formatter)
        super().format_epilog(ctx, formatter)


def _common_place(option: click.Option) -> int:
    """Return the sort key of an option in a command's help. The command's own options come first, then the options
    that most users need, in a fixed order, then --help."""
    if "--help" in option.opts:
        return len(_COMMON)
    return _COMMON.index(str(option.name)) if option.name in _COMMON else -1


class HelpedGroup(click.Group):
    """Group of commands whose help ends with examples."""

    def __init__(self, *args: Any, examples: Iterable[str] = (), **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the group's examples as unwrapped lines, so that each can be copied."""
        write_examples(self.examples, formatter)


def write_examples(examples: Iterable[str], formatter: click.HelpFormatter) -> None:
    """Write examples of commands, one unwrapped line each, below the heading Examples; nothing where there are
    none."""
    if examples := tuple(examples):
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")


def write_names(names: Mapping[str, Sequence[str]], formatter: click.HelpFormatter) -> None:
    """Write one row per title: the title, then its names separated by commas. A name is never broken between lines,
    even at a hyphen."""
    lead = max(map(len, names), default=0) + formatter.current_indent + 2
    for title, members in names.items():
        line = f"{'':{formatter.current_indent}}{title}".ljust(lead)
        for position, member in enumerate(members):
            word = member if position == len(members) - 1 else f"{member}, "
            if len(line) > lead and len(line) + len(word.rstrip()) > formatter.width:
                formatter.write(f"{line.rstrip()}\n")
                line = " " * lead
            line += word
        formatter.write(f"{line}\n")


def verb(
    *examples: str,
    name: str | None = None,
    headings: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    cls: type[HelpedCommand] = HelpedCommand,
) -> Callable[[Callable[..., Any]], HelpedCommand]:
    """Return a decorator that makes a function a command whose help ends with `examples`. `headings` maps a title in
    the help to the parameters of the command's own options that stand below it."""
    return click.command(name, cls=cls, examples=examples, headings=headings)
