"""Define the commands `compare` (times to train, throughput, quality) and `diff` (settings and logs) of results."""

from collections.abc import Sequence
from pathlib import Path
from string import ascii_letters
from typing import TYPE_CHECKING

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import RULESET, WITH, ResultPath, distinct, fraction, is_published
from harness.cli.shared.output import VERBOSE, echo_others_at, form_option, is_verbose, show, show_as, show_json
from harness.foundation.errors import ExitCode, HarnessError
from reports.render.forms import FORMS

if TYPE_CHECKING:
    from reports.comparison.records import Comparison
    from reports.results.result import Result


def effect(text: str) -> tuple[float, str | None]:
    """Return an effect size as (value, unit): (0.03, None) for the ratio '3%' or '0.03', (0.001, 'auc') for the
    difference '0.001auc'."""
    number = text.strip().rstrip(ascii_letters)
    return fraction(number or text), text.strip()[len(number) :] or None


def confidence_level(text: str) -> float:
    """Return a level of confidence such as '95%' or '0.95' as a fraction. Raises BadParameter."""
    value = fraction(text)
    if not 0.5 <= value <= 0.9999:
        raise click.BadParameter(f"{text!r}: expected a confidence from 50% to 99.99%, such as 95% or 0.95.")
    return value


@verb("dlrmbench compare base latest", "dlrmbench compare latest/base latest/new --fail-on regression")
@click.argument("base", metavar="BASE", type=ResultPath())
@click.argument("news", metavar="NEW...", nargs=-1, type=ResultPath())
@WITH
@click.option(
    "--min-effect",
    type=effect,
    help="Smallest difference between results that matters, such as 3%, .03 or .001auc.  [default: 3% of times, "
    "0.001auc of quality]",
)
@click.option(
    "--confidence",
    type=confidence_level,
    default="95%",
    show_default=True,
    help="Confidence level of the intervals and verdicts.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["regression", "inconclusive", "never"]),
    default="never",
    show_default=True,
    help="regression: exit with 3 if the rules reject a set, 5 if NEW is slower or worse, 7 if NEW may be slower or "
    "worse by --min-effect or more (one-sided, at --confidence). inconclusive: exit with 7 also if there is no "
    "verdict.",
)
@click.option(
    "--repeated",
    multiple=True,
    type=ResultPath(),
    help="At least three sets of one configuration, or their folder, which show how far this system drifts between "
    "sets; repeatable.  [default: sets like BASE or NEW in the folders that hold BASE and NEW]",
)
@RULESET
@form_option("table", "json", "csv", *FORMS)
@VERBOSE
def compare(
    base: Path,
    news: tuple[Path, ...],
    min_effect: tuple[float, str | None] | None,
    confidence: float,
    fail_on: str,
    repeated: tuple[Path, ...],
    reference: str | None,
    ruleset: str | None,
    form: str,
) -> int:
    """Compare each NEW with BASE: time to train and its factors, with intervals, causes and verdicts.

    BASE and NEW are result directories of any origin, measurements of 'run --throughput' or '--quality', names of
    sets in the results folder, or files of 'report --format json' (FILE:NAME names one set of a file with several).
    Sets that differ in benchmark, target, dataset or division are refused (exit 2). Verdicts are 'faster', 'slower',
    'below the smallest effect' (the difference is certainly smaller than --min-effect), 'no difference shown' and
    'inconclusive'. Times are compared by geometric means; a score is an Olympic mean. Quality is compared by
    differences of AUC, or of the benchmark's own metric, and judged 'better' or 'worse'. A regression is a time to
    train judged slower, or a quality judged worse. An inconclusive time to train is also a regression if convergence
    or throughput is slower and neither is faster. If the time to train is inconclusive, and of its factors only
    overhead (time outside training steps) is slower, NEW counts as a regression. Where NEW's higher throughput saves
    more time than its overhead adds, NEW is not a regression. Runs that share seeds are compared in pairs; where both
    runs of every pair converge after equally many samples, convergence is 'identical'.

    The speed of a system drifts. Between sets measured one after the other, a difference in speed or time counts only
    if it exceeds the possible drift, which is taken to be at least 5 %. Drift is estimated from at least three sets
    of one configuration and code version, of which the first began no later, and the last no earlier, than BASE and
    NEW (see --repeated). Where drift cannot be estimated, it is assumed to be 20 %. 'dlrmbench versus BASE' measures
    two sets alternately (A/B) and detects far smaller differences. An interval covers the variation of one system
    only, not the difference from a reference system (--with).

    With --fail-on regression the exit code is 0 only where NEW is shown not to be slower or worse by --min-effect or
    more. With --fail-on regression the exit code is 3 where the rules reject NEW or BASE, 5 where NEW is slower or
    worse, and 7 where NEW may be slower or worse by --min-effect or more. With exit code 7, a message on stderr
    estimates how many pairs of runs, measured alternately, would be enough for a verdict. If 20 % is assumed for
    drift, a comparison of times or speeds of sets measured one after the other cannot rule out a regression, and
    --fail-on regression does not exit with 0. If the estimated drift exceeds --min-effect, --fail-on regression exits
    with 0 only where NEW was measured faster.
    """
    from harness.run_sets.names import refuse_missing
    from reports.comparison.among_published import place_results
    from reports.comparison.comparability import refused_words
    from reports.comparison.comparison import GroupContext, compare_results
    from reports.comparison.export import comparison_document
    from reports.comparison.repeats import find_repeats, given_repeats
    from reports.comparison.sources import read_results, results_to_compare
    from reports.results.published import asked_table
    from reports.views.comparison import comparison_blocks
    from reports.views.published import among_blocks

    if not news and reference is None:
        raise _base_alone(base)
    if is_published(reference) and form in ("json", "csv"):
        raise click.UsageError("--with published is text, or a page of 'report'. Leave --format out.")
    refuse_missing((base, *news))
    echo_others_at((base, *distinct(news)))
    table = asked_table(reference)
    first, others = results_to_compare(base, distinct(news), None if table else reference, ruleset)
    placed = () if table is None else place_results((first, *others), table)
    smallest = None if min_effect is None else _effect_on(first, *min_effect)
    given = [side for path in distinct(repeated) for side in read_results(path)]
    context = GroupContext(repeats=given_repeats(given) if given else find_repeats([first, *others]))
    comparisons = compare_results(first, others, min_effect=smallest, confidence=confidence, context=context)
    if form == "json":
        show_json(comparison_document(comparisons))
    elif form == "csv":
        from reports.comparison.export import COMPARISON_COLUMNS, comparison_rows
        from reports.tables.frames import frame_csv, make_frame

        rows = comparison_rows(comparison_document(comparisons))
        click.echo(frame_csv(make_frame(COMPARISON_COLUMNS, rows)), nl=False)
    else:
        blocks = comparison_blocks(comparisons, is_brief=form == "table" and not is_verbose()) if others else ()
        show((*blocks, *(among_blocks(placed) if placed else ())), form)
    if refused := refused_words(comparisons):
        raise HarnessError(refused, ExitCode.USAGE)
    for command in more_runs((base, *news), comparisons):
        click.echo(f"more runs should decide (look at the result once, when all are made): {command}", err=True)
    return ExitCode.DONE if fail_on == "never" else _gate(comparisons, fail_on)


def _base_alone(base: Path) -> click.UsageError:
    """Return the error for a comparison without NEW; where BASE is a folder of several run sets, the error says
    so."""
    from rules.logs.text import printable
    from rules.records.experiment import not_one_set

    said = not_one_set(base)
    group = "" if said is None else f" {printable(str(base))} {said}"
    return click.UsageError(f"Missing argument 'NEW...': give one, or --with NAME.{group}")


def _gate(comparisons: Sequence["Comparison"], fail_on: str) -> ExitCode:
    """Return the exit code of `--fail-on` for all comparisons. Raises HarnessError, with the reason, where a compared
    result is INVALID, or a regression is neither shown nor excluded."""
    if rejected := [comparison for comparison in comparisons if comparison.invalid_sides]:
        raise HarnessError(_why_rejected(rejected[0]), ExitCode.COMPLIANCE)
    if any(comparison.is_regression for comparison in comparisons):
        return ExitCode.REGRESSION
    if open_ones := [each for each in comparisons if not each.is_regression_excluded]:
        raise HarnessError(_why_not_excluded(open_ones[0]), ExitCode.INCONCLUSIVE)
    if fail_on == "inconclusive" and any(comparison.verdict == "inconclusive" for comparison in comparisons):
        return ExitCode.INCONCLUSIVE
    return ExitCode.DONE


def _why_rejected(comparison: "Comparison") -> str:
    sides = {"base": comparison.base, "new": comparison.new}
    names = " and ".join(sides[side] for side in comparison.invalid_sides)
    return f"{names}: INVALID by the rules, so nothing is shown by it. 'dlrmbench check' says why."


def _why_not_excluded(comparison: "Comparison") -> str:
    """Return the message that a regression is neither shown nor excluded, with the number of pairs of runs that
    should decide, and the command that measures these pairs."""
    from reports.comparison.wording import effect_text

    least = "" if comparison.whole is None else f" by {effect_text(comparison.min_effect, comparison.whole)} or more"
    text = f"{comparison.new}: a regression against {comparison.base}{least} is neither shown nor ruled out"
    drift, better = comparison.drift, comparison.measure_better
    number, *others = comparison.pairs_to_tell or (None,)
    text += f": they were measured one after the other, and {drift}." if drift else "."
    pairs = "More than 1,000" if number is None else f"About {number:,}"
    text += f" {pairs} pairs measured alternately should decide, if "
    text += "the two are alike" if drift else "it is as measured; look once, when all are made"
    fewer = [other for other in others if other is not None and (number is None or other < number)]
    text += f", and about {fewer[0]:,} where equal seeds converge alike" if fewer else ""
    asked = f" -n {fewer[0] if fewer else number}" if fewer or number else ""
    return f"{text}: '{better}{asked}'." if drift and better else f"{text}."


def more_runs(paths: Sequence[Path], comparisons: Sequence["Comparison"]) -> list[str]:
    """Return the `resume` commands that add the runs that inconclusive comparisons of dlrmbench's own run sets need.

    Run sets of official benchmarks get no command, since their number of runs is fixed. Run sets that were measured
    one after the other get no command, since more runs would not reduce the effect of the system's drift between
    them; the comparison itself advises to measure such run sets alternately.
    """
    from reports.results.records import read_run_set
    from rules.logs.text import printable
    from rules.records.experiment import resume_command

    needed = [
        comparison.whole.runs_needed or 0
        for comparison in comparisons
        if comparison.verdict == "inconclusive"
        and comparison.whole is not None
        and comparison.status != "official"
        and not comparison.is_one_after_the_other
    ]
    most = max(needed, default=0)
    records = [(path, read_run_set(path, [])) for path in paths]
    small = [path for path, record in records if record is not None and record.num_runs < most]
    return list(dict.fromkeys(printable(resume_command(path, most)) for path in small))


def _effect_on(side: "Result", value: float, unit: str | None) -> float:
    """Return the smallest effect of interest (--min-effect); raise UsageError where its unit does not fit the
    compared quantity."""
    from reports.comparison.factor import factor_of

    compared = factor_of(side.quantities[0])
    expected = None if compared.is_ratio else compared.unit
    if unit != expected:
        example = "a fraction such as 3%" if expected is None else f"a difference such as 0.001{expected}"
        raise click.UsageError(
            f"--min-effect: the unit {unit or 'of a fraction'} does not fit {side.label}. Give {example}."
        )
    return value


@verb("dlrmbench diff base latest", "dlrmbench diff latest/base latest/new --verbose")
@click.argument("a", metavar="A", type=ResultPath())
@click.argument("b", metavar="B", type=ResultPath())
@click.option("-v", "--verbose", is_flag=True, help="Also list the values that are identical in A and B.")
@RULESET
@form_option("table", "json", *FORMS, text="Form of the output; json has all details.")
def diff(a: Path, b: Path, verbose: bool, ruleset: str | None, form: str) -> int:
    """Show the differences between two results: settings, software, system, and the contents of their logs.

    A and B may each be one of the following: a run set or a measurement of dlrmbench, given by its folder or its
    name; a result directory of any origin; a log; a file of 'report --format json' (FILE:NAME names one set of a file
    with several). Every value is listed with its source: the definition, a file, an option, a line of the log.
    """
    from harness.run_sets.names import refuse_missing
    from reports.comparison.difference import describe, find_difference
    from reports.views.difference import difference_blocks

    refuse_missing((a, b))
    echo_others_at((a, b))
    difference = find_difference(describe(a, ruleset), describe(b, ruleset))
    show_as(form, difference, difference_blocks(difference, with_identical=verbose))
    return ExitCode.DONE
