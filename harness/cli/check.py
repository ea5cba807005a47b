"""Define the commands `check` (judge logs and result directories) and `score` (score result directories)."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import (
    DEFINITION,
    NO_SECOND_OPINION,
    RULESET,
    FiniteRange,
    ResultPath,
    completing,
    distinct,
)
from harness.cli.shared.output import echo_others, form_option, note, show, show_json, show_opinions
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.status_line import StatusLine
from reports.render.forms import FORMS
from rules.logs.log import MAX_LOG_BYTES
from rules.logs.text import printable
from rules.temporary_folder import temporary_folder
from rules.tree.inventory import (
    MAX_MENTIONED,
    MAX_SKIPPED,
    SkippedFile,
    find_skipped,
    list_result_sets,
    take_inventory,
)

if TYPE_CHECKING:
    from rules.checks.subject import JudgedSet

STANDARD_INPUT = Path("-")
_MAX_NAMED = 3


def _explained() -> Iterator[str]:
    """Yield the possible arguments of --explain: every family of rules, every rule, and all."""
    from rules.checks.rule import family_of
    from rules.judge.families import all_rules

    codes = [rule.code for rule in all_rules()]
    yield from (*dict.fromkeys(map(family_of, codes)), *codes, "all")


@verb("dlrmbench check latest", "dlrmbench check --explain QU102")
@click.argument("paths", metavar="PATH...", nargs=-1, type=ResultPath())
@DEFINITION
@RULESET
@form_option(
    "table",
    "json",
    "csv",
    *FORMS,
    "sarif",
    "junit",
    text="Form of the output; sarif is for code hosts, junit for build servers.",
)
@NO_SECOND_OPINION
@click.option(
    "--explain",
    metavar="CODE",
    shell_complete=completing(_explained),
    help="Judge nothing, but explain one rule, such as QU102, or list the rules of a family, such as QU, or all "
    "rules.",
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show every finding on every log, set and submission, not only the worst findings.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="Exit with 3 for findings of this severity or a worse one.",
)
def check(
    paths: tuple[Path, ...],
    benchmark_file: Path | None,
    ruleset: str | None,
    form: str,
    no_second_opinion: bool,
    explain: str | None,
    verbose: bool,
    fail_on: str,
) -> int:
    """Judge logs, result directories, submissions and whole rounds against the rules.

    PATH is a log, a result directory, an organisation's submission, a round of submissions, any directory that
    contains one of these directories, or '-' for a log from standard input. The exit code is 3 when a rule is broken,
    also for an empty log. Warnings (without --fail-on warning) and incomplete sets leave the exit code 0, but in a
    submission an incomplete set is an error. Logs that are not named result_<i>.txt and run sets without a finished
    run are listed and not judged. MLPerf results from fields other than recommendation are listed but not judged; if
    there is nothing else to judge, the exit code is 8.
    """
    from harness.system.resources import count_usable_cores
    from reports.views.verdict import MAX_PLACES, explain_rule, rules_table, verdict_blocks, verdicts_csv
    from rules.checks.verdict import relocate
    from rules.judge.checker import MANY_LOGS, check_paths
    from rules.judge.document import verdicts_to_json
    from rules.judge.families import find_rule, list_rules

    if explain is not None:
        listed = list_rules(explain)
        show(rules_table(listed) if listed else explain_rule(find_rule(explain)))
        return ExitCode.DONE
    if not paths:
        raise click.UsageError(
            "Give a log or a directory to check, or a rule with --explain CODE; '--explain all' lists them."
        )
    line = StatusLine()
    with spooled_input(paths) as given:
        inventories = [take_inventory(path, benchmark_file) for path in distinct(given)]
        found = check_paths(
            inventories,
            benchmark_file,
            not no_second_opinion,
            ruleset,
            count_usable_cores(),
            partial(show_judging, line, MANY_LOGS),
            partial(show_opinions, line),
        )
    spooled = [str(path) for path in given if path not in paths]
    verdicts = [relocate(verdict, spooled[0], "-") for verdict in found] if spooled else found
    skipped = [item for inventory in inventories for item in find_skipped(inventory)]
    if form == "json":
        show_json(verdicts_to_json(verdicts, skipped))
    elif form == "csv":
        click.echo(verdicts_csv(verdicts), nl=False)
    elif form == "sarif":
        from reports.render.sarif import verdicts_to_sarif

        show_json(verdicts_to_sarif(verdicts))
    elif form == "junit":
        from reports.render.junit import verdicts_to_junit

        click.echo(verdicts_to_junit(verdicts))
    else:
        show(verdict_blocks(verdicts, max_places=None if verbose or form != "table" else MAX_PLACES), form)
    echo_skipped(skipped)
    is_refused = any(
        verdict.outcome == "invalid" or (fail_on == "warning" and verdict.count("warning")) for verdict in verdicts
    )
    if is_refused:
        return ExitCode.COMPLIANCE
    return ExitCode.INPUT if all(verdict.outcome == "not judged" for verdict in verdicts) else ExitCode.DONE


@verb("dlrmbench score latest", "dlrmbench score results --format json")
@click.argument("paths", metavar="DIR...", nargs=-1, required=True, type=ResultPath())
@DEFINITION
@RULESET
@form_option(
    "table",
    "json",
    "csv",
    "published",
    *FORMS,
    text="Form of the output; published makes a TABLE.json for --with published:TABLE.json.",
)
@click.option("--require-score", is_flag=True, help="Exit with 7 when a set has no score.")
@click.option(
    "--require-valid", is_flag=True, help="Exit with 3 when a set breaks a rule, with 7 when a set is incomplete."
)
@click.option(
    "--price-per-hour",
    type=FiniteRange(min=0, min_open=True),
    metavar="PRICE",
    help="Price of the system per hour, in any currency: adds the cost to train, from the Olympic mean of times to "
    "train.",
)
def score(
    paths: tuple[Path, ...],
    benchmark_file: Path | None,
    ruleset: str | None,
    form: str,
    require_score: bool,
    require_valid: bool,
    price_per_hour: float | None,
) -> int:
    """Score result directories: the Olympic mean of the times to train, a confidence interval of their geometric
    mean, and the factors of the time: samples to converge, throughput and overhead.

    DIR is a result directory or any directory above result directories. Scores follow from the logs alone:
    scaling.json is not read, and no file is written. A set that breaks rules is scored, too; the exit code tells of a
    broken rule or an incomplete set only with --require-valid.
    """
    from reports.parts.score import score_sets
    from reports.tables.scores import ScoreDocument
    from reports.views.score import score_blocks, scores_csv
    from rules.errors import NothingToJudgeError
    from rules.judge.sets import judge_sets

    inventories = [take_inventory(path, benchmark_file) for path in distinct(paths)]
    echo_others(inventories)
    try:
        found = list_result_sets(inventories)
    except NothingToJudgeError as error:
        raise HarnessError(str(error), ExitCode.INCONCLUSIVE if require_score else ExitCode.INPUT) from None
    judged = judge_sets(found, benchmark_file, ruleset, second_opinion=False)
    records = score_sets(judged, price_per_hour)
    if form == "published":
        _print_published(judged)
    elif form == "json":
        show_json(ScoreDocument(scores=records))
    elif form == "csv":
        click.echo(scores_csv(records), nl=False)
    else:
        show(score_blocks(records), form)
    if require_valid and any(record.outcome == "invalid" for record in records):
        return ExitCode.COMPLIANCE
    if require_score and any(record.score_s is None for record in records):
        return ExitCode.INCONCLUSIVE
    if require_valid and any(record.outcome != "valid" for record in records):
        return ExitCode.INCONCLUSIVE
    return ExitCode.DONE


def _print_published(judged: "Sequence[JudgedSet]") -> None:
    """Print the table of published results as JSON; on standard error, name the results that are left out, with the
    reasons."""
    from reports.parts.score import results_of_sets
    from reports.results.published import make_published
    from rules.records.codec import encode

    table, left_out = make_published(results_of_sets(judged))
    for text in left_out:
        note(f"not in the table: {text}")
    click.echo(encode(table), nl=False)


@contextmanager
def spooled_input(paths: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """Yield the paths to judge, with '-' replaced by a temporary file that has the contents of standard input. The
    file exists while the caller's block runs.

    A file is needed because logs may be of any length and the official checkers read only files.
    """
    if STANDARD_INPUT not in paths:
        yield tuple(paths)
        return
    if list(paths).count(STANDARD_INPUT) > 1:
        raise click.UsageError("'-' is standard input and can be read once.")
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError("'-' reads a log from standard input; send one, such as with 'cat LOG |'.")
    with temporary_folder("check") as folder:
        place = folder / STANDARD_INPUT.name
        with place.open("wb") as file:
            left = MAX_LOG_BYTES + 1  # one byte more than the limit of a log, so that the limit is reported
            while left and (block := sys.stdin.buffer.read(min(left, 1 << 20))):
                left -= file.write(block)
        yield tuple(place if path == STANDARD_INPUT else path for path in paths)


def echo_skipped(skipped: Sequence[SkippedFile]) -> None:
    """Print on standard error which files look like results but were not judged, and why.

    Where only a few files have the same reason, each is named on its own line; more of them share one line, with a
    count per folder.
    """
    by_reason: dict[str, list[Path]] = {}
    for item in skipped:
        by_reason.setdefault(f"{item.reason}; {item.remedy}", []).append(item.path)
    for reason, paths in by_reason.items():
        if len(paths) <= _MAX_NAMED:
            for path in paths:
                click.echo(f"not judged: {printable(str(path))}: {reason}.", err=True)
            continue
        folders = Counter(printable(str(path.parent)) for path in paths)
        named = ", ".join(f"{folder} ({number})" for folder, number in [*folders.items()][:MAX_MENTIONED])
        rest = ", and other folders" if len(folders) > MAX_MENTIONED else ""
        click.echo(f"not judged: {len(paths):,}, each {reason}: {named}{rest}.", err=True)
    if len(skipped) >= MAX_SKIPPED:
        click.echo("not judged: perhaps more, which are not counted.", err=True)


def show_judging(line: StatusLine, least: int, num_done: int, num_logs: int) -> None:
    """Show on the status line how many logs have been judged, where there are at least `least` logs."""
    if num_logs >= least:
        line.show_count(num_done, num_logs, "logs judged")
