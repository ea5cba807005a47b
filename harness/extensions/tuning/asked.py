"""Read the constraints of a search of settings, and choose the kind of measurement that has the columns asked for."""

import re
from dataclasses import replace

import click

from harness.cli.shared.options import SizeParam
from harness.experiment.request import Request
from harness.extensions.tuning.records import ConstraintRecord, SearchRecord
from harness.extensions.tuning.trials import kind_with

_NUMBERS = {"throughput": 50, "quality": 65_536}
"""Dict from kinds of measurement that need a number to its default: training steps for throughput, samples for
quality."""


def read_constraint(text: str) -> ConstraintRecord:
    """Read a constraint on a measured column, such as 'memory<=1GB' or 'auc>=0.8'. Raises BadParameter."""
    match = re.fullmatch(r"\s*(\w+)\s*(<=|>=)\s*(\S.*?)\s*", text)
    if match is None:
        raise click.BadParameter(f"{text!r}: expected COLUMN<=VALUE or COLUMN>=VALUE, such as memory<=1GB.")
    column, sign, value = match.groups()
    try:
        number = float(SizeParam(takes_bytes=True).convert(value, None, None)) if value[-1] in "bB" else float(value)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):
        raise click.BadParameter(f"{text!r}: {value!r} is neither a number nor a size such as 1GB.")
    return ConstraintRecord(column=column, sign=sign, value=number)  # type: ignore[arg-type]


def with_kind(request: Request, search: SearchRecord) -> Request:
    """Return a search's request with the kind of measurement that its trials make. If the request names no kind, it
    is the first kind that has all columns which the search optimizes or constrains; training to the target quality is
    the default.

    Raises HarnessError (exit 2) if no kind has all the columns, or if the search would look for the worst value of
    the column that it optimizes.
    """
    if request.kinds or (kind := kind_with(search, None)) == "training":
        return request
    return replace(request, kinds={kind: _NUMBERS.get(kind)})
