"""`report`: results as one self-contained page, or as JSON, CSV or Markdown."""

from pathlib import Path

import click

_DEFAULT_PAGE = Path("report.html")


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path),
    help="File to write.  [default: report.html; stdout for the other formats]",
)  # fmt: skip
@click.option("--title", help="Headline of the page, instead of the result in one sentence.")
@click.option(
    "--format", "output_format", type=click.Choice(["html", "json", "csv", "md"]), default="html", show_default=True,
    help="html: the page; json: everything; csv: one row per run; md: the verdict tables.",
)  # fmt: skip
@click.option("--no-second-opinion", is_flag=True, help="Do not ask the official compliance checker.")
def report(
    paths: tuple[Path, ...], output: Path | None, title: str | None, output_format: str, no_second_opinion: bool
) -> None:
    """Render the result sets at or below each PATH, comparable ones side by side.

    PATH is a result directory of anyone's, a directory of them, or one log.
    """
    from reports.report import gather_profiles, gather_sets, gather_sweeps, render_report, write_whole

    target = _DEFAULT_PAGE if output is None and output_format == "html" else output
    if target is not None and target.is_dir():
        raise click.UsageError(f"{target}: is a directory. Give --output a file, such as {target / _DEFAULT_PAGE}.")
    sweeps, profiles = gather_sweeps(paths), gather_profiles(paths)
    sets = gather_sets(paths, sweeps, profiles, second_opinion=not no_second_opinion)
    text = render_report(sets, output_format=output_format, title=title, sweeps=sweeps, profiles=profiles)
    if target is None or str(target) == "-":
        click.echo(text, nl=False)
    else:
        click.echo(write_whole(target, text))
