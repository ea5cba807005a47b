"""What packaging adds to tests of the core."""

READING = {"package": "package {place} --submitter Example -o {out} --no-second-opinion"}
WORDS = {
    "package": (
        ("run dlrm_tiny --threads 1 -q --seed 5 --submitter me",),
        "package results/latest --submitter me -o out --no-second-opinion --allow-non-compliant",
    )
}
MEASURING_NOTHING = {"package": "it copies what was measured"}
