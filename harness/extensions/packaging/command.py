"""Define the command `package`: build an MLPerf submission tree from run sets, and judge it."""

from pathlib import Path
from typing import Any

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import NO_SECOND_OPINION, ResultPath, distinct
from harness.cli.shared.output import echo_others, show
from harness.foundation.errors import ExitCode


@verb(
    "dlrmbench package mine --submitter Me -o submission",
    "dlrmbench package A B --submitter Me --division open -o submission",
)
@click.argument("results", metavar="RESULTS...", nargs=-1, required=True, type=ResultPath())
@click.option("--submitter", required=True, metavar="ORG", help="Organisation that submits, spelled as in the logs.")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="New folder for the submission, which will hold ORG/ and SHA256SUMS.",
)
@click.option(
    "--division",
    type=click.Choice(["closed", "open"]),
    help="Division of the submission; results of another division are refused.",
)
@click.option(
    "--ruleset",
    metavar="ROUND",
    help="MLPerf round by whose rules the submission is judged, such as 6.0.  [default: inferred]",
)
@click.option(
    "--weights",
    is_flag=True,
    help="Also package the weights that 'run --keep-weights' kept; their size is printed.",
)
@click.option("--allow-non-compliant", is_flag=True, help="Also package sets that break rules or are incomplete.")
@NO_SECOND_OPINION
def package(results: tuple[Path, ...], no_second_opinion: bool, **given: Any) -> int:
    """Build an organisation's MLPerf submission tree from RESULTS: run sets or their names, or result trees of any
    origin.

    Logs are copied byte for byte and never edited. The rules check the logs against dlrmbench's own records of its
    runs, which are packaged in extra/, next to the submission's scripts. The command lists the files that it leaves
    out of the tree. The submission tree is judged by dlrmbench's rules and MLPerf's official checkers, and is written
    only if it is compliant (exit code 3 otherwise). The submission tree is written completely or not at all.
    """
    from harness.extensions.packaging.build import NotCompliantError, PackageRequest, build_package, package_blocks
    from reports.views.verdict import MAX_PLACES, verdict_blocks
    from rules.logs.text import printable
    from rules.tree.inventory import take_inventory

    results = distinct(results)
    echo_others([take_inventory(path) for path in results])
    try:
        made = build_package(PackageRequest(sources=results, second_opinion=not no_second_opinion, **given))
    except NotCompliantError as error:
        show(verdict_blocks(error.verdicts, max_places=MAX_PLACES))
        raise
    for packaged in made.sets:
        if (code := packaged.verdict.trained_by) is not None:
            where = f"{printable(packaged.benchmark)} on {printable(packaged.system)}"
            click.echo(
                f"warning: {where} was trained by own code ({code}), which writes the log and computes the quality. "
                "Whoever reviews the submission reads it.",
                err=True,
            )
    show((*verdict_blocks((made.verdict,), max_places=MAX_PLACES), *package_blocks(made)))
    return ExitCode.COMPLIANCE if made.verdict.outcome == "invalid" else ExitCode.DONE
