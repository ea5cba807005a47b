"""List the files that Python ran in this process before dlrmbench's code: their code can change everything."""

import hashlib
import site
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MODULES = ("sitecustomize", "usercustomize")
_MAX_BYTES = 1 << 24


@dataclass(frozen=True, kw_only=True, slots=True)
class StartupFile:
    """File that Python runs at start-up, before dlrmbench; `kind` is sitecustomize, usercustomize or pth."""

    kind: str
    path: str
    sha256: str | None


def find_startup_files() -> tuple[StartupFile, ...]:
    """Return the files that Python runs at start-up: modules that `site` imports, and .pth files that have code
    (docs.python.org, module site)."""
    found = []
    for name in _MODULES:
        # A module without a file was made by another start-up file.
        if (module := sys.modules.get(name)) is not None:
            found.append(_describe(name, Path(getattr(module, "__file__", None) or f"<{name}>")))
    return tuple(found) + tuple(_describe("pth", path) for path in _find_pth_files())


def _find_pth_files() -> Iterator[Path]:
    """Yield the .pth files of this process's site folders that have an import line, which Python runs as code."""
    if sys.flags.no_site:
        return
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    for folder in dict.fromkeys(map(Path, folders)):
        with suppress(OSError):
            for path in sorted(folder.glob("*.pth")):
                lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
                if any(line.startswith(("import ", "import\t")) for line in lines):
                    yield path


def _describe(kind: str, path: Path) -> StartupFile:
    digest = None
    with suppress(OSError):
        if path.is_file() and path.stat().st_size <= _MAX_BYTES:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return StartupFile(kind=kind, path=str(path), sha256=digest)
