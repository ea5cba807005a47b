"""Where the checkout and its tests are, for tests at any depth."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
