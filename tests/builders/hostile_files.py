"""Every option, argument and key that may name a file, given what is none: a device, a pipe, a link, a hole, NUL.

Options are those of the registry of verbs, each added to the verb's command line of `hostile_folders.WORDS`. What
needs others beside it, and keys of files, are in ASKED, and in the FILE_WORDS and FILE_LINES of extensions.
"""

import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from bounded_command import TooSlowError, bounded, bounded_memory
from hostile_folders import MAX_CPU_S, all_words, begin_walk
from scripted_commands import run_scripted_command
from scripted_workers import Moment, ScriptedWorkers
from seams import find_seams

from harness.cli import COMMANDS, cli
from harness.foundation.errors import ExitCode

KINDS = ("device", "pipe", "link to a device", "link to itself", "hole", "NUL", "folder", "no UTF-8")
FORMS = (
    "{}",
    "{}.toml",
    "file:{}",
    "{}.py:LOAD",
    "plan:{}",
    "{}.json",
    "{}.csv",
    "{}.parquet",
    "{}.pt",
    "{}.pt.gz",
    "{}.log",
)
"""How a word names a file, for whoever looks at its ending or its beginning."""
SEEN_AT_ONCE = 2
"""So many forms are given every kind, the others those that a reader would wait for, or read without end."""
OUTPUTS = {"output", "log_to", ("profile", "trace"), ("init", "path"), ("init", "model_file")}
"""Options that name what is to be written, by their name, or for a verb alone: that may be anything."""
_MOST_BYTES = 1 << 43
ASKED: Mapping[str, str] = {
    "implementation of a configuration": "run dlrm_tiny -n 1 -q --threads 1 -c asked.toml",
    "columns": "init begun.toml --from-columns {}.toml",
    "model": "init begun.toml --like dlrm_tiny --data-of {}.toml",
    "log": "check result_{}.txt --no-second-opinion",
}
"""Command lines in which {} is the file; those of asked.toml say it in that file, as in KEYS."""
KEYS: Mapping[str, str] = {
    "implementation of a configuration": "[runtime]\nimplementation = {}\n",
}


def all_asked() -> dict[str, str]:
    return {**ASKED, **find_seams("FILE_WORDS")}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command of the registry, those of a group each."""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", each) for inner, each in command.commands.items())
        elif command is not None:
            yield name, command


def texts_of(name: str, command: click.Command) -> list[click.Parameter]:
    """Its options and arguments that take a word: numbers and choices name no file."""
    return [
        each
        for each in command.params
        if isinstance(each.type, (click.types.StringParamType, click.Path, click.types.FuncParamType))
        or type(each.type).__name__ in ("ResultPath", "ProgramPath")
        if not {each.name, (name, each.name)} & OUTPUTS
    ]


def words_with(name: str, command: click.Command, parameter: click.Parameter, value: str) -> list[str]:
    """The verb's command line with one option, or in place of one argument."""
    _, words = next((each for what, each in all_words().items() if what.startswith(name)), ((), name))
    line, start = words.split(), len(name.split())
    if isinstance(parameter, click.Option):
        return [*line, parameter.opts[-1], value]
    place = [each.name for each in command.params if isinstance(each, click.Argument)].index(parameter.name)
    given = [at for at in range(start, len(line)) if not line[at].startswith("-")]
    if place < len(given) and given[place] == start + place:
        line[given[place]] = value
    else:
        line.insert(start, value)
    return line


def make_file(kind: str, form: str, folder: Path) -> str:
    """Make what is no file as that form names it; return the word."""
    if kind == "device":
        return form.replace("{}", "/dev/zero") if form in ("{}", "file:{}", "plan:{}") else ""
    if kind == "NUL":
        return form.format("a\0b")
    name = form.format("odd").removeprefix("file:").removeprefix("plan:").removesuffix(":LOAD")
    path = folder / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    elif kind == "link to itself":
        path.symlink_to(name)
    elif kind == "folder":
        path.mkdir()
    elif kind == "no UTF-8":
        path.write_bytes(b"\xff\xfe\0[\xe9" * 1000)
    else:
        _make_hole(path)
    return form.format("odd")


def _make_hole(path: Path) -> None:
    """A file of zeros which takes no space: of 8 TiB, or the most that the file system takes."""
    path.touch()
    num_bytes = _MOST_BYTES
    while True:
        try:
            os.truncate(path, num_bytes)
            return
        except OSError:
            num_bytes //= 2


def run_hostile(words: list[str], folder: Path) -> str | None:
    """Run a command line; what is wrong with how it ended, None where nothing is."""
    try:
        with bounded(MAX_CPU_S), bounded_memory(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of packages that a verb imports
            ended = run_scripted_command(words, folder, ScriptedWorkers(Moment(3600), num_evals=1))
    except (Exception, TooSlowError) as error:
        return f"{words}: {type(error).__name__}: {error}"
    is_documented = ended.code in set(ExitCode) - {ExitCode.INTERNAL_ERROR}
    if not is_documented or "Traceback" in ended.err or "internal error" in ended.err:
        return f"{words}: {ended.code}: {ended.err}"
    return None


def cases() -> Iterator[tuple[str, str]]:
    """Kinds of what is no file, each in the forms that may make a difference."""
    for number, form in enumerate(FORMS):
        yield from ((kind, form) for kind in (KINDS if number < SEEN_AT_ONCE else ("pipe", "hole")))


def place_of(what: str, data_root: Path, folder: Path) -> Path:
    """A working folder as a verb's command line has it."""
    found = next((each for each in all_words() if each.startswith(what)), what)
    return begin_walk(found, data_root, folder).base


def asked_in(what: str, kind: str, folder: Path) -> list[str] | None:
    """Make the file, and asked.toml where the key is in one; return the command line, None where there is none."""
    line, text = all_asked()[what], {**KEYS, **find_seams("FILE_KEYS")}.get(what)
    form = next((word for word in line.split() if "{}" in word), "{}")
    value = make_file(kind, form, folder)
    if not value:
        return None
    if (lines := find_seams("FILE_LINES").get(what)) is not None:
        old, new = lines
        ended = run_scripted_command(["show", "dlrm_tiny", "--format", "toml"], folder, ScriptedWorkers(Moment()))
        assert ended.out.count(old) == 1, old
        (folder / "asked.toml").write_text(ended.out.replace(old, new.format(_escape(value))))
    elif text is not None:
        (folder / "asked.toml").write_text(text.format(_quote(value)))
    return [value if "{}" in word else word for word in line.split()]


def _quote(text: str) -> str:
    return f'"{_escape(text)}"'


def _escape(text: str) -> str:
    return text.replace("\0", "\\u0000")


def clean(folder: Path, base: Path) -> Path:
    """The working folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    return shutil.copytree(base, folder, symlinks=True)
