"""Define the DataSpec (functions that prepare and check the data) of clicks in a user's own columns. Imports no
numpy."""

from reference_models.data.columns.parameters import ColumnsSection, parse_columns
from reference_models.data.spec import DataSpec, load
from reference_models.data.store.layout import SOFT_CLICKS

SPEC = DataSpec(
    example=None,
    section=ColumnsSection,
    parse=parse_columns,
    parameters="reference_models.data.columns.parameters:ColumnsParameters",
    check=load("reference_models.data.columns.parameters:read_parameters"),
    soft_layout=SOFT_CLICKS,
    takes_sizes_from_files=True,
    prepare=load("reference_models.data.columns.prepare:prepare_columns"),
)
