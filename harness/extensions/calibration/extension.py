"""What the core is told of calibration: one verb. Its record is of the core, which reads those that are shipped."""

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
