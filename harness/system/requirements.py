"""Whether what is installed lies in the range that this distribution declares (its package metadata)."""

import platform
import re
from importlib import metadata

from harness.system.software import version_of

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;()]*)\)?\s*(;.*)?")
_CLAUSE = re.compile(r"(==|!=|>=|<=|>|<|~=)\s*([0-9]+(?:\.[0-9]+)*)")


def unsupported_versions() -> list[str] | None:
    """One text per package that is missing or outside its range; None when the metadata is not there."""
    try:
        distribution = metadata.distribution("dlrmbench")
    except metadata.PackageNotFoundError:
        return None
    wrong = []
    python = (distribution.metadata.get_all("Requires-Python") or [""])[0]
    if not is_within(platform.python_version(), python):
        wrong.append(f"Python {platform.python_version()} (supported: {python})")
    for requirement in distribution.requires or []:
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None or match[3]:  # what belongs to an extra may be missing
            continue
        installed = version_of(match[1])
        if installed is None:
            wrong.append(f"{match[1]} is missing ({match[2].strip() or 'any version'})")
        elif not is_within(installed, match[2]):
            wrong.append(f"{match[1]} {installed} (supported: {match[2].strip()})")
    return wrong


def is_within(version: str, specifier: str) -> bool:
    """Whether a release lies within 'A,B,…'; builds, pre- and post-releases count as their release."""
    release = _release(version)
    return all(_holds(release, operator, _release(bound)) for operator, bound in _CLAUSE.findall(specifier))


def _release(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _holds(release: tuple[int, ...], operator: str, bound: tuple[int, ...]) -> bool:
    length = max(len(release), len(bound))
    left, right = (numbers + (0,) * (length - len(numbers)) for numbers in (release, bound))
    if operator == "~=":
        return left >= right and release[: len(bound) - 1] == bound[:-1]
    order = (left > right) - (left < right)
    return {"==": order == 0, "!=": order != 0, ">=": order >= 0, "<=": order <= 0, ">": order > 0, "<": order < 0}[
        operator
    ]
