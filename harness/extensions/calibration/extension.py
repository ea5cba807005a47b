"""Register the calibration extension with the core of the harness: the command `calibrate`. The type of its record is
in the core, which reads the shipped calibrations."""

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
