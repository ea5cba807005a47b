"""Define the DataSpec (functions that open the data) of synthetic clicks in memory. Imports neither torch nor
numpy."""

from reference_models.data.spec import DataSpec, load
from reference_models.data.synthetic.config import SyntheticSection, parse_synthetic

SPEC = DataSpec(
    example=None,
    section=SyntheticSection,
    parse=parse_synthetic,
    is_in_memory=True,
    open=load("reference_models.data.synthetic.dataset:open_synthetic"),
)
