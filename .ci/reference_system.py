"""Measure this system as a reference system, and put its sets into the product: `make reference-system NAME=...`.

Usage: reference_system.py NAME [BENCHMARK]; dlrmbench of this Python's environment measures. Runs to the target and
throughput of BENCHMARK (dlrm_small), by `reference` and `optimized`, become reports/reference_systems/NAME, whole or
not at all, in place of what has that name; SHA256SUMS there has the digest of each file, which a test looks at. Of
what was recorded, the folder of the dataset and the name of the host are left out; nothing else is changed.
"""

import getpass
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

SYSTEMS = Path(__file__).resolve().parents[1] / "reports" / "reference_systems"
SUMS = "SHA256SUMS"
SHIPPED = (
    "extra/definition.toml",
    "extra/run_set.json",
    "extra/throughput.json",
    "extra/run_*/attempt_*/run.json",
    "results/*/*/result_*.txt",
    "systems/*.json",
)
IMPLEMENTATIONS = ("reference", "optimized")
_OTHER_PATH = re.compile(r'"/(?!sys/|proc/)[^"]*"')


def measure(name: str, benchmark: str, folder: Path) -> None:
    """Run what is shipped, in `folder`. Raises CalledProcessError where a set fails or is INVALID."""
    dlrmbench = Path(sys.executable).with_name("dlrmbench")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DLRMBENCH_")}
    for implementation in IMPLEMENTATIONS:
        asked = [benchmark, "--implementation", implementation, "--data", "data"]
        for words in (
            ["--name", f"{name}-{implementation}"],
            ["--name", f"{name}-{implementation}-speed", "--throughput", "100"],
        ):
            subprocess.run([dlrmbench, "run", *asked, *words], cwd=folder, env=environment, check=True)
    subprocess.run([dlrmbench, "check", "results"], cwd=folder, env=environment, check=True)


def ship(made: Path, target: Path) -> None:
    """Copy what is shipped of the sets in `made` to `target`, in place of what is there.

    Raises ValueError where a file names this host, its user or a folder, and leaves `target` as it was.
    """
    with tempfile.TemporaryDirectory(dir=target.parent) as draft:
        for path in sorted(
            path
            for each in made.iterdir()
            if not each.is_symlink()
            for pattern in SHIPPED
            for path in each.glob(pattern)
        ):
            text = without_places(path.read_text(encoding="utf-8"))
            if named := places_in(text):
                raise ValueError(f"{path}: names {', '.join(named)}, which no shipped file may do.")
            copy = Path(draft, path.relative_to(made))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text, encoding="utf-8")
        Path(draft, SUMS).write_text(sums_of(Path(draft)), encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(draft, target)


def without_places(text: str) -> str:
    """Return a file's text without the folder of the dataset, whose name stays, and the name of the host."""
    text = re.sub(r'("dir": )"/[^"]*/([^"/]*)"', r'\1"\2"', text)
    return text.replace(f'"host": {json.dumps(socket.gethostname())}', '"host": ""')


def places_in(text: str) -> list[str]:
    """List what a text says of this host: its name, its user's, and any folder but those of the kernel."""
    names = (json.dumps(name) for name in (socket.gethostname(), getpass.getuser()))
    folders = (json.dumps(str(folder))[1:-1] for folder in (Path.home(), Path.cwd(), SYSTEMS.parents[1]))
    return [name for name in (*names, *folders) if name in text] + _OTHER_PATH.findall(text)


def sums_of(folder: Path) -> str:
    """Return the lines of sha256sum of all files below `folder` but SHA256SUMS, sorted by name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / SUMS)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files)


def main(name: str, benchmark: str = "dlrm_small") -> None:
    if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name):
        raise SystemExit(f"NAME={name}: expected words of a-z and 0-9 with hyphens, such as amd-epyc-zen3-2-cores.")
    SYSTEMS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        measure(name, benchmark, Path(work))
        ship(Path(work, "results"), SYSTEMS / name)
    print(SYSTEMS / name)


if __name__ == "__main__":
    main(*sys.argv[1:])
