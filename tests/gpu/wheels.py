"""Fetch the wheels that a bare Python with torch lacks, for its version and platform: `make gpu-wheels`.

    python tests/gpu/wheels.py [--python 3.12] [--has FILE] [--glibc 2.28] [--machine x86_64]

What is needed is read from pyproject.toml and from the wheels themselves. FILE lists what that Python has, as
`python3 -m pip list --format freeze` prints it there, or names alone; without it, all but torch is fetched. Wheels go
to .whl/cp312/, which travels with the checkout.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from email.parser import HeaderParser
from pathlib import Path

from packages import NOT_OURS_TO_BRING, normal, read_project, requirements, wheels_folder
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[2]
_LEGACY = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="3.12", help="its version (3.12)")
    parser.add_argument("--has", type=Path, metavar="FILE", help="what it has, a distribution per line")
    parser.add_argument("--glibc", default="2.28", help="the C library's version, at most (2.28)")
    parser.add_argument("--machine", default="x86_64")
    parser.add_argument("--to", type=Path, help="the folder of the wheels (default: .whl/cp312)")
    options = parser.parse_args()
    if not re.fullmatch(r"3\.\d+", options.python):
        parser.error(f"--python is {options.python!r}: expected a version such as 3.12.")
    if not re.fullmatch(r"2\.\d+", options.glibc):
        parser.error(f"--glibc is {options.glibc!r}: expected a version such as 2.28.")
    return options


def read_installed(lines: Iterable[str]) -> dict[str, Version | None]:
    """Read names, with versions where they are said: "a==1", "a 1", "a @ file:…", "a", also several to a line."""
    installed: dict[str, Version | None] = {}
    for line in lines:
        for part in re.split(r"[,;]", line.partition("#")[0]):
            match = re.match(r"\s*([A-Za-z0-9][\w.-]*)(?:(?:\s*==\s*|\s+)([0-9]\S*))?", part)
            if match is None or normal(match[1]) in ("package", "-"):
                continue
            try:
                installed[normal(match[1])] = Version(match[2]) if match[2] else None
            except InvalidVersion:
                installed[normal(match[1])] = None
    return installed


def environment(python: str, machine: str) -> dict[str, str]:
    """Return what markers of requirements ask about that Python on Linux."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "platform_python_implementation": "CPython",
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": machine,
        "platform_release": "",
        "platform_version": "",
        "extra": "",
    }


def platforms(glibc: str, machine: str) -> list[str]:
    """List the tags of wheels that this glibc runs, newest first."""
    minors = range(int(glibc.partition(".")[2]), 4, -1)
    tags = [tag for minor in minors for tag in (f"manylinux_2_{minor}", _LEGACY.get(minor)) if tag]
    return [f"{tag}_{machine}" for tag in tags] + [f"linux_{machine}"]


def download(requirement: str, folder: Path, options: argparse.Namespace) -> Path:
    """Download the one wheel that meets a requirement; exits with pip's words where there is none."""
    tags = [word for tag in platforms(options.glibc, options.machine) for word in ("--platform", tag)]
    with tempfile.TemporaryDirectory() as empty:
        command = [
            sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--no-deps",
            "--only-binary=:all:", "--implementation", "cp", "--python-version", options.python, *tags,
            "--dest", empty, requirement,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(
                f"Error: no wheel of {requirement} for Python {options.python}: {done.stderr.strip()[-400:]}"
            )
        (wheel,) = Path(empty).glob("*.whl")
        target = folder / wheel.name
        shutil.move(wheel, target)
    return target


def requires(wheel: Path) -> list[Requirement]:
    """Read what a wheel requires, of its own metadata."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
        headers = HeaderParser().parsestr(archive.read(name).decode("utf-8"))
    return [Requirement(line) for line in headers.get_all("Requires-Dist") or ()]


def fetch(
    wanted: Iterable[Requirement], installed: Mapping[str, Version | None], folder: Path, options: argparse.Namespace
) -> dict[str, Path]:
    """Download what is wanted and not installed, and what that requires, until nothing is missing."""
    markers = environment(options.python, options.machine)
    asked: dict[str, SpecifierSet] = {}
    fetched: dict[str, Path] = {}
    queue = list(wanted)
    while queue:
        requirement = queue.pop(0)
        name = normal(requirement.name)
        if name in NOT_OURS_TO_BRING or (requirement.marker and not requirement.marker.evaluate(markers)):
            continue
        asked[name] = asked.get(name, SpecifierSet()) & requirement.specifier
        if name in fetched:
            if asked[name].contains(parse_wheel_filename(fetched[name].name)[1], prereleases=True):
                continue
            fetched.pop(name).unlink()
        elif name in installed:
            version = installed[name]
            if version is None or asked[name].contains(version, prereleases=True):
                continue
            print(f"{name} {version} is there, {asked[name]} is needed")
        fetched[name] = download(f"{name}{asked[name]}", folder, options)
        queue += requires(fetched[name])
    return fetched


def tracked_bytes() -> int | None:
    """Count the bytes of the checkout's own files; None outside of one."""
    done = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    return sum((ROOT / name).stat().st_size for name in done.stdout.split("\0") if name and (ROOT / name).is_file())


def main() -> None:
    options = parse()
    project = read_project(ROOT)
    if not SpecifierSet(project["requires-python"]).contains(f"{options.python}.0"):
        raise SystemExit(f"Error: dlrmbench needs Python {project['requires-python']}, not {options.python}.")
    installed: dict[str, Version | None] = {}
    if options.has is not None:
        try:
            installed = read_installed(options.has.read_text(encoding="utf-8").splitlines())
        except OSError as error:
            raise SystemExit(f"Error: {options.has}: {error.strerror}") from None
    folder = options.to or wheels_folder(ROOT, options.python)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    fetched = fetch(map(Requirement, requirements(project)), installed, folder, options)
    for wheel in sorted(fetched.values()):
        print(f"{wheel.stat().st_size / 1e6:8.2f} MB  {wheel.name}")
    total, own = sum(wheel.stat().st_size for wheel in fetched.values()), tracked_bytes()
    beside = f"; the checkout's files beside them {own / 1e6:.1f} MB" if own is not None else ""
    print(f"{total / 1e6:8.2f} MB  {len(fetched)} wheels in {folder}{beside}")


if __name__ == "__main__":
    main()
