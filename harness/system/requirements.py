"""Whether what is installed lies in the range that this distribution declares (its package metadata)."""

import platform
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from harness.system.software import version_of


def unsupported_versions() -> list[str] | None:
    """Describe each package that is missing or outside its range; None when the metadata is not there."""
    try:
        distribution = metadata.distribution("dlrmbench")
    except metadata.PackageNotFoundError:
        return None
    wrong = []
    python = (distribution.metadata.get_all("Requires-Python") or [""])[0]
    if not is_within(platform.python_version(), python):
        wrong.append(f"Python {platform.python_version()} (supported: {python})")
    for requirement in map(Requirement, distribution.requires or []):
        installed = version_of(requirement.name)
        if requirement.marker is not None:  # what belongs to an extra may be missing
            continue
        if installed is None:
            wrong.append(f"{requirement.name} is missing ({requirement.specifier or 'any version'})")
        elif not is_within(installed, str(requirement.specifier)):
            wrong.append(f"{requirement.name} {installed} (supported: {requirement.specifier})")
    return wrong


def is_within(version: str, specifier: str) -> bool:
    """Say whether a release lies within 'A,B,…'; builds, pre- and post-releases count as their release."""
    return SpecifierSet(specifier).contains(Version(version).base_version)
