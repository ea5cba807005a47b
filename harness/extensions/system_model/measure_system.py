"""Define the command `measure-system`: measure this CPU's rates (FLOP/s, bytes/s …) and write them to a file, or to
an archive together with this system's reference run sets."""

from pathlib import Path

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import DATA, completing_definitions, output_option, trainable
from harness.cli.shared.output import say
from harness.foundation.errors import ExitCode, HarnessError

BENCHMARKS = ("dlrm_small", "dlrm_dcnv2_small")


@verb(
    "dlrmbench measure-system -o its.toml",
    "dlrmbench measure-system --bundle amd-epyc-zen3-2-cores -o zen3.zip",
    name="measure-system",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="TOML file to which the rates are written or, with --bundle, .zip file to write.  [default: rates to the "
    "console, a bundle to NAME.zip]",
)
@click.option(
    "--bundle",
    metavar="NAME",
    help="Also measure reference run sets on this system. Pack the run sets and this system's measured rates "
    "(FLOP/s, bytes/s, fixed times) as an archive called NAME, with which others can compare their results.",
)
@click.option(
    "--benchmark",
    "benchmarks",
    multiple=True,
    shell_complete=completing_definitions(trainable),
    help=f"Benchmark whose reference sets --bundle measures; repeatable.  [default: {', '.join(BENCHMARKS)}]",
)
@DATA
@output_option("Folder for the run sets that --bundle measures as a reference.", "--results")
def measure_system(
    output: Path | None, bundle: str | None, benchmarks: tuple[str, ...], data_root: Path | None, results: Path
) -> None:
    """Measure the CPU's rates in about 20 s: matrix products, copies, random row reads, overhead of an operator.

    The measured rates are written to -o, or to the console, in the form that 'plan-system' reads. Each rate has a
    note on how it was measured and on the spread of its repetitions. The file with the measured rates also records
    the machine's load, and warnings about sources of noise.

    With --bundle, reference run sets are first measured on this system, which takes some minutes. Each benchmark is
    run to its target, and timed for its throughput, with each of the implementations `reference` and `optimized`. The
    reference run sets and this system's measured rates become one archive, which the option '--with FILE' of compare,
    report and plan-system takes. A reference run set whose speed has a coefficient of variation of more than 3 %
    between processes, or for which the machine's load was not recorded, is refused (exit 6). The archive of --bundle
    leaves out the names of host, user and folders.
    """
    from harness.extensions.system_model.rates import measure_here
    from harness.foundation.files import write_text
    from harness.planning.hardware.system import write_system
    from harness.run_sets.environment import Environment

    if bundle is not None:
        _write_bundle(bundle, benchmarks or BENCHMARKS, data_root, results, output)
        return
    if benchmarks:
        raise click.UsageError("--benchmark is for --bundle NAME.")
    if output is not None and output.suffix != ".toml":
        raise HarnessError(f"--output {output}: expected a file name that ends in .toml.", ExitCode.USAGE)
    text = write_system(measure_here(say, Environment.check()))
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text)
        click.echo(f"wrote {output}", err=True)


def _write_bundle(
    name: str, benchmarks: tuple[str, ...], data: Path | None, results: Path, output: Path | None
) -> None:
    from harness.extensions.system_model.bundle import check_name, make_bundle
    from reports.results.bundles import SUFFIX
    from reports.text.atomic_write import draft_file

    check_name(name)
    path = Path(f"{name}{SUFFIX}") if output is None else output
    if path.suffix != SUFFIX or not path.absolute().parent.is_dir():
        raise HarnessError(
            f"--output {path}: expected a file name that ends in {SUFFIX}, in a folder that is there.", ExitCode.USAGE
        )
    content = make_bundle(name, tuple(dict.fromkeys(benchmarks)), data, results, say)
    with draft_file(path, SUFFIX) as draft, draft.open("xb") as file:
        file.write(content)
    click.echo(f"wrote {path}, {len(content) / 1e3:.0f} kB")
