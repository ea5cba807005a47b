"""What calibration adds to tests of the core."""

TRAINING = {"calibrate": "calibrate {benchmark}"}
WORDS = {"calibrate": ((), "calibrate dlrm_tiny --quick")}
STAND_INS = {
    "harness.extensions.calibration.calibrate:describe_platform": "calibration_stand_ins:describe_scripted_platform",
    "harness.extensions.calibration.runs:train_epoch": "calibration_stand_ins:calibrated",
}
