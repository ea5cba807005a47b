"""Define the DataSpec (functions that generate and check the data) of patterns (images with a class per task).
Imports neither torch nor numpy."""

from reference_models.data.spec import DataSpec, load
from reference_models.data.store.layout import IMAGES

SPEC = DataSpec(
    example="d2nn_small",
    parameters="reference_models.data.patterns.teacher:PatternParameters",
    check=load("reference_models.data.patterns.teacher:parse_parameters"),
    layout=IMAGES,
    generate=load("reference_models.data.patterns.generator:make_parts"),
    oracle=load("reference_models.data.patterns.generator:oracle_scores"),
)
