"""Short stories of `package`, held against goldens/ beside this file."""

from golden_scenarios import LATEST, TRAIN, step

SCENARIOS = {
    "package_refused": (
        step(f"{TRAIN} -n 1 --seed 5 -q --submitter me"),
        step(f"package {LATEST} --submitter other -o out --no-second-opinion"),
        step(f"package {LATEST} --submitter me -o out --no-second-opinion"),
    ),
}
