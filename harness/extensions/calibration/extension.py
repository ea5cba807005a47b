"""Register calibration with the core of the harness: one verb. The record type is in the core, which reads the
shipped calibrations."""

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
