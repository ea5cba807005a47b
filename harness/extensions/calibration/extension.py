"""Registration of the calibration extension: one verb. Its record is in the core, which reads the shipped ones."""

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
