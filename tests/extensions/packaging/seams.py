"""What packaging adds to tests of the core."""

READING = {"package": "package {place} --submitter Example -o {out} --no-second-opinion"}
