"""Where the checkout and its tests are, for tests at any depth."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PAIRS_AT_RANDOM = TESTS / "data" / "pairs_at_random.toml"
"""A small definition whose pairs of features are drawn, as definitions have them that say nothing else."""
