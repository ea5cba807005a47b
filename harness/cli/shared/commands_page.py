"""Make the page of all commands, harness/cli/README.md, from their help: `dlrmbench schema commands_page` prints
it."""

from inspect import cleandoc
from itertools import chain

import click

from harness.cli import COMMANDS, SECTIONS, cli
from harness.cli.shared.help import HelpedCommand

_HEAD = """# Commands

This page is made by `dlrmbench schema commands_page > harness/cli/README.md`. `dlrmbench COMMAND --help` prints the
help of one command.
"""


def render_page() -> str:
    """Return the page of all commands as Markdown: for each command its usage, its help and its options."""
    root = click.Context(cli, info_name="dlrmbench", **cli.context_settings)
    parts = [_HEAD]
    for title, verbs in SECTIONS.items():
        parts.append(f"## {title}\n")
        for verb in verbs:
            command = cli.get_command(root, verb)
            assert command is not None, verb
            parts += _describe(command, click.Context(command, info_name=verb, parent=root), COMMANDS[verb].help)
    return "\n".join(parts)


def _describe(command: click.Command, context: click.Context, summary: str) -> list[str]:
    if isinstance(command, click.Group):
        inner = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
        return [
            part
            for name, each in inner
            if each is not None
            for part in _describe(each, click.Context(each, info_name=name, parent=context), "")
        ]
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    text = cleandoc(command.help or summary).replace("\b\n", "")
    options = (
        command.sort_options(context) if isinstance(command, HelpedCommand) else {"": command.get_params(context)}
    )
    rows = [
        f"| `{names.replace('|', chr(92) + '|')}` | {' '.join(meaning.split()).replace('|', chr(92) + '|')} |"
        for option in chain.from_iterable(options.values())
        if isinstance(option, click.Option) and "--help" not in option.opts
        for names, meaning in filter(None, [option.get_help_record(context)])
    ]
    examples = "\n".join(("```console", *getattr(command, "examples", ()), "```\n"))
    return [f"### `{usage}`\n", f"{text}\n", examples, "| option | means |", "|---|---|", *rows, ""]
