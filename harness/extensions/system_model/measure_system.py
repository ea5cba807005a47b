"""`measure-system`: the rates of the CPU at hand, as a file."""

from pathlib import Path

import click

from harness.cli.shared.help import verb
from harness.cli.shared.output import say
from harness.foundation.errors import ExitCode, HarnessError


@verb("dlrmbench measure-system", "dlrmbench measure-system -o its.toml", name="measure-system")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The TOML file to write.  [default: to the console]"
)
def measure_system(output: Path | None) -> None:
    """Measure the CPU's rates, in about 20 s: products, copies, rows at random, an operator's overhead.

    Writes them as 'plan-system' takes them, to -o or to the console; each says how it was measured, and how far apart
    its repetitions lay. What disturbed them, and the load meanwhile, are in the file.
    """
    from harness.extensions.system_model.rates import measure_here
    from harness.foundation.files import write_text
    from harness.planning.hardware.system import write_system
    from harness.run_sets.environment import Environment

    if output is not None and output.suffix != ".toml":
        raise HarnessError(f"--output {output}: expected a file name that ends in .toml.", ExitCode.USAGE)
    text = write_system(measure_here(say, Environment.check()))
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text)
        click.echo(f"wrote {output}", err=True)
