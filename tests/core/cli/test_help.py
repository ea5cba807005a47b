"""What --help says: the everyday verbs first, options under headings, examples that the command line accepts."""

import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from harness.cli import COMMANDS, SECTIONS, cli
from harness.cli.shared.help import COMMON, HelpedCommand, write_names


def context() -> click.Context:
    """As the command line makes it: a command remembers the first help option that it is asked for."""
    return click.Context(cli, info_name="dlrmbench", **cli.context_settings)


def commands() -> dict[str, click.Command]:
    """Every command by what is typed, those of a group too."""
    found = {}
    for name in COMMANDS:
        command = cli.get_command(context(), name)
        assert command is not None, name
        found[name] = command
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": each for inner, each in command.commands.items()}
    return found


ALL = commands()


def help_of(*words: str, columns: int = 80) -> list[str]:
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, [*words, "--help"], terminal_width=columns)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def parse(example: str) -> None:
    """Parse a command line as far as its verb does; nothing is run."""
    command: click.Command = cli
    (program, *words), parent = shlex.split(example), context()
    assert program == "dlrmbench"
    while isinstance(command, click.Group):
        name = words.pop(0)
        inner = command.get_command(parent, name)
        assert inner is not None, example
        command = inner
    command.make_context(command.name, words, parent=parent)


@pytest.mark.parametrize("name", ALL)
def test_each_help_has_two_examples_that_the_command_line_accepts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = getattr(ALL[name], "examples", ())
    assert len(examples) >= 2 and len(set(examples)) == len(examples)
    for example in examples:
        assert f"{example} ".startswith(f"dlrmbench {name} ")
        parse(example)
    assert [f"  {example}" for example in examples] == help_of(*name.split())[-len(examples) :]


@pytest.mark.parametrize("name", ALL)
def test_no_line_of_a_help_is_wider_than_the_terminal(name: str) -> None:
    assert [line for line in help_of(*name.split()) if len(line) > 80] == []


def test_the_first_help_fits_a_terminal_of_40_lines() -> None:
    lines = help_of()
    assert len(lines) <= 40 and max(map(len, lines)) <= 88  # a command with its remark is not broken
    assert "./results" in " ".join(lines) and "Exit codes: 0 done" in " ".join(lines)


def test_the_first_help_begins_with_everyday_verbs_and_names_all_others() -> None:
    lines = help_of()
    begin = lines.index("Commands:") + 1
    end = lines.index("", begin)
    first = [line.split()[0] for line in lines[begin:end]]
    assert first == [name for verbs in SECTIONS.values() for name in verbs if COMMANDS[name].is_everyday]
    assert {"run", "versus", "compare", "sweep", "check", "report"} < set(first)
    rest = " ".join(lines[end:]).replace(",", " ").split()
    assert [name for name in COMMANDS if name not in first and name not in rest] == []


@pytest.mark.parametrize("columns", [40, 60, 78, 200])
def test_names_of_verbs_are_never_broken(columns: int) -> None:
    formatter = click.HelpFormatter(width=columns)
    names = ["plan-devices", "plan-system", "measure-system", "place-tasks"] * 3
    write_names({"Plan and model": names}, formatter)
    assert formatter.getvalue().replace("Plan and model", "").replace(",", "").split() == names
    assert max(map(len, formatter.getvalue().splitlines())) <= columns


@pytest.mark.parametrize("name", [name for name, command in ALL.items() if isinstance(command, HelpedCommand)])
def test_each_option_is_under_one_heading_and_common_ones_come_first(name: str) -> None:
    command = ALL[name]
    assert isinstance(command, HelpedCommand)
    inside = click.Context(command, parent=context(), info_name=name)
    sections = command.sort_options(inside)
    shown = [option for options in sections.values() for option in options]
    assert sorted(shown, key=id) == sorted(
        (p for p in command.get_params(inside) if isinstance(p, click.Option)), key=id
    )
    assert next(iter(sections)) in ("Options", COMMON)
    assert all(len(options) <= 24 for options in sections.values())
