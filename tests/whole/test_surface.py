"""The command line's verbs and options are a promise: they change only together with the files that list them.

Those of the core are in cli_surface.txt here, those of an extension in tests/extensions/<name>/surface.txt. After a
deliberate change: python tests/whole/test_surface.py > tests/whole/cli_surface.txt, which writes the others, too.
"""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from harness.cli import COMMANDS, CORE_COMMANDS, SECTIONS, cli
from rules.extensions import load_extensions

EXPECTED = Path(__file__).with_name("cli_surface.txt")
FOLDER = Path(__file__).parents[1] / "extensions"


def surface(command: click.Command, path: str = "dlrmbench", parent: click.Context | None = None) -> list[str]:
    """One line per verb, argument and option: names, whether it takes a value, choices, environment variable."""
    lines = [path]
    context = click.Context(command, info_name=path, parent=parent, **command.context_settings)
    for parameter in command.get_params(context):
        lines.append(f"{path}  {describe_parameter(parameter)}")
    if isinstance(command, click.Group):
        names = CORE_COMMANDS if command is cli else command.list_commands(context)
        for name in sorted(names):
            child = command.get_command(context, name)
            assert child is not None, name
            lines += surface(child, f"{path} {name}", context)
    return lines


def surfaces_of_extensions() -> dict[str, str]:
    """Return the lines of each extension's verbs, by its name; those without verbs have none."""
    context = click.Context(cli, info_name="dlrmbench", **cli.context_settings)
    found = {}
    for name, extension in load_extensions().items():
        lines: list[str] = []
        for verb in sorted(extension.verbs):
            command = cli.get_command(context, verb)
            assert command is not None, verb
            lines += surface(command, f"dlrmbench {verb}", context)
        found |= {name: "".join(f"{line}\n" for line in lines)} if lines else {}
    return found


def describe_parameter(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        name = str(parameter.name).upper()
        return f"{name}{'...' if parameter.nargs == -1 else ''}{'' if parameter.required else ' (optional)'}"
    assert isinstance(parameter, click.Option)
    words = [", ".join([*parameter.opts, *parameter.secondary_opts])]
    if isinstance(parameter.type, click.Choice):
        words.append("|".join(map(str, parameter.type.choices)))
    elif not parameter.is_flag:
        words.append("VALUE")
    words += ["repeatable"] if parameter.multiple else []
    words += ["required"] if parameter.required else []
    words += [f"[{parameter.envvar}]"] if parameter.envvar else []
    return " ".join(words)


@pytest.mark.slow
def test_verbs_and_options_are_those_that_were_promised(tmp_path: Path) -> None:
    """In a process of its own: a command of click remembers the first help option that anyone asked it for."""
    from waiting import HANG_S  # not where this file is started alone

    command = [sys.executable, __file__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True)
    assert done.stdout == EXPECTED.read_text(encoding="utf-8")
    made, promised = (
        {path.parent.name: path.read_text(encoding="utf-8") for path in folder.glob("*/surface.txt")}
        for folder in (tmp_path, FOLDER)
    )
    assert made == promised


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_every_verb_explains_itself(verb: str) -> None:
    done = CliRunner().invoke(cli, [verb, "-h"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"Usage: cli {verb}")
    context = click.Context(cli)
    command = cli.get_command(context, verb)
    assert command is not None
    assert command.help
    silent = [p.name for p in command.params if isinstance(p, click.Option) and not p.help and not p.hidden]
    assert silent == []


def test_every_verb_is_in_one_section_of_the_help() -> None:
    assert sorted(verb for verbs in SECTIONS.values() for verb in verbs) == sorted(COMMANDS)


def test_an_unknown_verb_gets_a_suggestion_and_exit_code_2() -> None:
    done = CliRunner().invoke(cli, ["chek"])
    assert done.exit_code == 2
    assert "Did you mean 'check'?" in done.output


if __name__ == "__main__":
    print("\n".join(surface(cli)))
    for extension, text in surfaces_of_extensions().items():
        target = (Path(sys.argv[1]) if sys.argv[1:] else FOLDER) / extension / "surface.txt"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
