"""Clicks with columns of the user's own, as the harness knows them. Imports no numpy."""

from reference_models.data.columns.parameters import ColumnsSection, parse_columns
from reference_models.data.spec import DataSpec, load

SPEC = DataSpec(
    example=None,
    section=ColumnsSection,
    parse=parse_columns,
    parameters="reference_models.data.columns.parameters:ColumnsParameters",
    check=load("reference_models.data.columns.parameters:read_parameters"),
    takes_sizes_from_files=True,
    prepare=load("reference_models.data.columns.prepare:prepare_columns"),
)
