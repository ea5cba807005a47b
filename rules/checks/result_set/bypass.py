"""Report checks that a submitter asks the official package checker to leave out, in a file package_checker_params."""

import re
from collections.abc import Iterator
from pathlib import Path

from rules.checks.rule import Problem, rule
from rules.checks.subject import SetSubject

_MAX_BYTES = 4096
_BYPASS = re.compile(rb"(rcp|seed[-_]checker)[-_]bypass")
_LEFT_OUT = {"rcp": "reference convergence points", "seed-checker": "seeds"}


def _bypasses(subject: SetSubject) -> Iterator[tuple[Path, str]]:
    """Yield each file package_checker_params with the official check that it asks to leave out: "rcp" or
    "seed-checker"."""
    for path in subject.result_set.parameter_files:
        try:
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= _MAX_BYTES:
                for name in dict.fromkeys(_BYPASS.findall(path.read_bytes())):
                    yield path, name.decode().replace("_", "-")
        except OSError:
            continue


def bypass_words(subject: SetSubject, checker: str) -> str:
    """Return a clause for a message that names the file which asks the official package checker to leave out a test
    ("rcp" or "seed-checker"); empty where there is no such file."""
    path = next((path for path, name in _bypasses(subject) if name == checker), None)
    if path is None:
        return ""
    return f"; {Path(path.parent.name, path.name)} has the official package checker leave this test out"


@rule(
    "SU114",
    "no file should switch off official checks of seeds or convergence",
    source='training_rules.adoc, "RCP Rules and Guidelines": package_checker_params in the root, system or benchmark '
    "results directory",
    remedy="Tell the results chair, and be ready to justify what the test rejects: dlrmbench tests it in any case.",
    severity="info",
)
def bypasses_are_said(subject: SetSubject) -> Iterator[Problem]:
    """No file package_checker_params makes the official package checker leave out tests. Such a file in the directory
    of the submission, the system or the benchmark can switch off the tests of reference convergence points
    (rcp-bypass) and of seeds (seed-checker-bypass). The rules of this harness apply both tests in any case."""
    for path, name in _bypasses(subject):
        yield Problem(f"{name}-bypass has the official package checker not test {_LEFT_OUT[name]}", path)
