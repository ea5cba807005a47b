"""Define the DataSpec (functions that generate and check the data) of click logs. Imports neither torch nor numpy."""

from reference_models.data.spec import DataSpec, load

SPEC = DataSpec(
    example="dlrm_small",
    parameters="reference_models.data.click_log.teacher:TeacherConfig",
    check=load("reference_models.data.click_log.teacher:parse_teacher"),
    generate=load("reference_models.data.click_log.generator:make_parts"),
    oracle=load("reference_models.data.click_log.generator:oracle_scores"),
)
