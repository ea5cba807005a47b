"""`sorting-limit`: how many comparisons sorting takes at least."""

import click


@click.command()
@click.argument("number", type=click.IntRange(min=1, max=10**6))
def limit(number: int) -> None:
    """Say how many comparisons sort NUMBER values at least, whatever the method."""
    from math import lgamma, log

    click.echo(f"{lgamma(number + 1) / log(2):.0f} comparisons, computed")
