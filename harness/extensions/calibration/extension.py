"""Register the calibration extension, the command `calibrate`, with the core of the harness. The type of a
calibration's JSON record is in the core, since the core reads the calibrations that are shipped."""

from rules.extensions import Extension, Verb

EXTENSION = Extension(
    verbs={
        "calibrate": Verb(
            "harness.extensions.calibration.command:calibrate",
            "Measure where a benchmark's target should lie.",
            "Data",
        ),
    },
)
