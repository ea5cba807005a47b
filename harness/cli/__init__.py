"""Run the command line: a group that imports a command's module only when the command is used, and the one place that
turns errors into messages and exit codes."""

import atexit
import gc
import io
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from types import FrameType
from typing import Any, NoReturn

import click

from harness.cli.shared.help import write_examples, write_names
from harness.foundation.address_space import watch_address_space
from harness.foundation.errors import ExitCode, compose_message, end_process, exit_code_of
from harness.system.code import safe_path_variables
from rules.extensions import Verb, find_places, load_place, with_extensions

CORE_COMMANDS: Mapping[str, Verb] = {
    "run": Verb("harness.cli.run:run", "Train to the quality target, several times; check and report.", "Run", True),
    "versus": Verb(
        "harness.cli.run:versus", "Measure a set again and a change of it, alternately; compare.", "Run", True
    ),
    "resume": Verb("harness.cli.run:resume", "Complete an interrupted set of runs, a sweep or a pair.", "Run"),
    "sweep": Verb("harness.cli.sweep:sweep", "Run every combination of settings, interleaved.", "Run", True),
    "check": Verb(
        "harness.cli.check:check", "Judge logs and result directories against the rules.", "Judge and show", True
    ),
    "score": Verb(
        "harness.cli.check:score",
        "Score result directories by the Olympic mean of the times to train.",
        "Judge and show",
    ),
    "compare": Verb(
        "harness.cli.compare:compare", "Compare existing results, with verdicts.", "Judge and show", True
    ),
    "diff": Verb("harness.cli.compare:diff", "Show what differs between two results.", "Judge and show"),
    "report": Verb(
        "harness.cli.report:report", "Render results as one self-contained HTML page.", "Judge and show", True
    ),
    "profile": Verb(
        "harness.cli.profile:profile", "Show where a step's time goes, beside the system's peak rates.", "Look", True
    ),
    "plan": Verb(
        "harness.cli.plan:plan", "Estimate a run's time and needs, and the rules it would break.", "Plan and model"
    ),
    "list": Verb("harness.cli.inspect:list_", "List the benchmarks.", "Look"),
    "show": Verb("harness.cli.inspect:show_", "Show one benchmark's definition.", "Look"),
    "init": Verb("harness.cli.init:init", "Write a definition, or a model, of your own.", "Data", True),
    "system": Verb("harness.cli.inspect:system", "Describe this system in MLPerf's 33 fields.", "Look"),
    "doctor": Verb(
        "harness.cli.inspect:doctor", "Find sources of noise on this system; change nothing.", "Look", True
    ),
    "schema": Verb(
        "harness.cli.schema:schema", "Print JSON Schemas of files and documents; reference pages.", "Look"
    ),
    "data": Verb("harness.cli.data:data", "Generate, prepare and verify datasets.", "Data", True),
}
"""Commands of the core. Each name is mapped to the location of the command's function, its line and its heading in
--help, and whether it is listed at the top. The lines are repeated here so that --help imports no command's
module."""
HEADINGS = ("Run", "Judge and show", "Look", "Data", "Plan and model")
COMMANDS = with_extensions(CORE_COMMANDS, "verbs")
SECTIONS: Mapping[str, tuple[str, ...]] = {
    heading: tuple(name for name, verb in COMMANDS.items() if verb.heading == heading) for heading in HEADINGS
}
EXAMPLES = (
    "dlrmbench run                                       # train dlrm_small",
    "dlrmbench versus latest --implementation optimized  # is that faster?",
)
ENDING = """Results go to ./results (-o, or DLRMBENCH_OUTPUT), datasets to ./data.

Exit codes: 0 done, 1 internal error, 2 command line, 3 rules violated, 4 target not reached, 5 regression,
6 environment, 7 inconclusive, 8 bad input, 9 memory or disk, 124 timeout, 130 Ctrl-C, 141 reader gone,
143 SIGTERM."""


class LazyGroup(click.Group):
    """Group of commands that imports a command's module on use, so that --help and light commands avoid importing
    torch and pandas."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from rules.judge.parallel import no_collections

        with no_collections():  # imported objects stay, so collecting garbage would only take time
            command = load_place(COMMANDS[cmd_name].command)
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[cmd_name].command} is not a command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from rules.errors import did_you_mean

            raise click.UsageError(f"unknown command {args[0]!r}.{did_you_mean(args[0], list(COMMANDS))}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            verb = error.ctx.info_name if error.ctx is not None else None
            if (now := find_places("renamed").get(f"{verb} {error.option_name}")) is None:
                raise
            # Without click's suggestions of similarly spelled options, which do other things.
            lines = " or ".join(f"'dlrmbench {words}'" for words in now)
            raise click.NoSuchOption(
                error.option_name, f"{error.message} It is now {lines}.", ctx=error.ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        everyday = [verb for verbs in SECTIONS.values() for verb in verbs if COMMANDS[verb].is_everyday]
        with formatter.section("Commands"):
            formatter.write_dl([(verb, COMMANDS[verb].help) for verb in everyday])
        others = {title: [verb for verb in verbs if verb not in everyday] for title, verbs in SECTIONS.items()}
        with formatter.section("More commands, each with a --help"):
            write_names({title: verbs for title, verbs in others.items() if verbs}, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        formatter.write_paragraph()
        formatter.write("Options: -h, --help; --version; --debug shows tracebacks of errors.\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(EXAMPLES, formatter)
        super().format_epilog(ctx, formatter)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    epilog=ENDING,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="dlrmbench", prog_name="dlrmbench")
@click.option("--debug", is_flag=True, envvar="DLRMBENCH_DEBUG", help="Show tracebacks of errors.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Benchmark recommendation training: time to quality, judged, on one page."""
    ctx.ensure_object(dict)["debug"] = debug
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


class Termination(BaseException):
    """Exception for SIGTERM, raised in the main thread so that cleanup runs."""


def _printable_lines(text: str) -> str:
    """Return a message in which terminal control characters are escaped, since file names may contain them; line
    breaks stay."""
    from rules.logs.text import printable

    return "\n".join(map(printable, text.split("\n")))


def _folded(text: str) -> str:
    """Return a message's lines wrapped at blanks where standard error is a terminal; paths and commands stay
    whole."""
    if not sys.stderr.isatty():
        return text
    from harness.foundation.status_line import folded

    return folded(text, sys.stderr)


def _stream_of(error: Exception) -> str:
    """Return "standard output: " or "standard error: " where the error was raised while printing to that stream (such
    as on a full disk); empty for an error of a file."""
    trace = error.__traceback__ if isinstance(error, OSError) and error.filename is None else None
    while trace is not None:
        if trace.tb_frame.f_code is click.echo.__code__:
            return "standard error: " if trace.tb_frame.f_locals.get("err") else "standard output: "
        trace = trace.tb_next
    return ""


def _raise_terminated(signum: int, frame: FrameType | None) -> NoReturn:
    raise Termination


def fill_closed_streams() -> None:
    """Open the null device in place of a closed standard stream (`2>&-`). Otherwise the next file to be opened would
    get the stream's descriptor, and output meant for the stream would be written to that file."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # opening takes the lowest number that is free: this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, "w", encoding="utf-8", closefd=False))


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the command line and end the process; here every error becomes one message and a documented exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    state: dict[str, Any] = {}

    def leave(code: int) -> NoReturn:
        if state.get("is_rank"):
            end_process(code)
        try:
            stdout.flush()
        except OSError:  # Python would flush again at its exit, and then exit with 120
            os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
            code = code or ExitCode.RESOURCES
        if argv is None and "triton" in sys.modules:  # whose bindings print leaks at a normal exit
            atexit._run_exitfuncs()
            end_process(int(code))
        sys.exit(int(code))

    debug = "--debug" in arguments or bool(os.environ.get("DLRMBENCH_DEBUG"))
    fill_closed_streams()
    watch_address_space()
    signal.signal(signal.SIGTERM, _raise_terminated)
    os.environ.update(safe_path_variables())  # for all children: runs, ranks, pools and what torch starts
    stdout = sys.stdout
    # At its exit Python would search all loaded objects for cycles, which takes a sixth of a report's time.
    atexit.register(gc.freeze)
    try:
        code = cli.main(args=arguments, prog_name="dlrmbench", standalone_mode=False, obj=state)
        leave(int(code) if isinstance(code, int) else ExitCode.DONE)
    except click.exceptions.Exit as leaving:
        leave(leaving.exit_code)
    except click.ClickException as error:
        text = io.StringIO()
        error.show(file=text)
        click.echo(_folded(_printable_lines(text.getvalue())), err=True, nl=False)
        leave(ExitCode.USAGE)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        leave(ExitCode.INTERRUPTED)
    except Termination:
        click.echo("terminated", err=True)
        leave(ExitCode.TERMINATED)
    except SystemExit:
        # When the reader of stdout is gone, click wraps stdout and exits with 1. No verdict's exit code would be
        # correct, and with 0 a gate in a pipe would pass.
        if sys.stdout is stdout:
            raise
        leave(ExitCode.READER_GONE)
    except Exception as error:
        if debug:
            traceback.print_exc()
        code = exit_code_of(error)
        if code is None:
            said = f"dlrmbench: internal error: {type(error).__name__}: {_printable_lines(str(error))}\n"
            said += "This is a defect of dlrmbench. Run again with --debug and report what it prints."
            click.echo(_folded(said), err=True)
            code = ExitCode.INTERNAL_ERROR
        else:
            place = _stream_of(error)
            click.echo(_folded(f"dlrmbench: error: {place}{_printable_lines(compose_message(error))}"), err=True)
        leave(code)
