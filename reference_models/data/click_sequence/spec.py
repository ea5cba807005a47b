"""Define the DataSpec (functions that generate and check the data) of logs of users' clicks. Imports neither torch
nor numpy."""

from reference_models.data.spec import DataSpec, load

SPEC = DataSpec(
    example="dlrmv4_small",
    parameters="reference_models.data.click_sequence.teacher:SequenceParameters",
    check=load("reference_models.data.click_sequence.teacher:parse_parameters"),
    generate=load("reference_models.data.click_sequence.generator:make_parts"),
    oracle=load("reference_models.data.click_sequence.generator:oracle_scores"),
)
