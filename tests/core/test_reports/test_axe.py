"""The page under axe-core in a real browser: no violation, whatever the colours, the width and the data."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, find_browser
from log_builder import make_runs, write_set
from report_builder import write_report, write_run_set
from seams import find_seams

from rules.benchmarks.loader import load_benchmark
from rules.extensions import load_place

# Packages that carry axe.min.js, the one with the newer axe-core first. Nothing of them is imported.
PACKAGES = ("axe_playwright_python", "axe_core_python")
OTHERS = find_seams("HOSTILE_PAGES")
RUN = "axe.run(document, {resultTypes: ['violations']}).then((found) => JSON.stringify(found.violations))"


def find_axe() -> Path | None:
    for name in PACKAGES:
        spec = find_spec(name)
        for folder in spec.submodule_search_locations or () if spec else ():
            if (script := Path(folder) / "axe.min.js").is_file():
                return script
    return None


pytestmark = [
    pytest.mark.skipif(find_browser() is None, reason="no Chromium on PATH (apt-get install chromium)"),
    pytest.mark.skipif(find_axe() is None, reason="no axe-core (pip install '.[test]' brings axe-core-python)"),
]


@pytest.fixture(scope="module", params=["report", *OTHERS])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two problems: compared configurations of one's own, one of which did not converge, and an official one.
    Or another page than a report."""
    folder = tmp_path_factory.mktemp("axe")
    if request.param in OTHERS:
        return str(load_place(OTHERS[request.param])(folder, "</script><img src=x>").as_uri())
    tiny = load_benchmark("dlrm_tiny")
    write_run_set(folder / "one")
    write_run_set(folder / "two", runs=make_runs(tiny, throughput=15_000.0))
    write_run_set(folder / "three", runs=make_runs(tiny, converged=False))
    write_set(folder / "Org", load_benchmark("dlrm_dcnv2"), ours=False)
    return write_report([folder], folder / "report.html").as_uri()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "features"),
    [
        (1280, [("prefers-color-scheme", "light")]),
        (1280, [("prefers-color-scheme", "dark")]),
        (1280, [("forced-colors", "active")]),
        (360, [("prefers-color-scheme", "light")]),
    ],
    ids=["light", "dark", "forced", "narrow"],
)
def test_axe_finds_nothing(browser: Browser, page: str, width: int, features: list[tuple[str, str]]) -> None:
    axe = find_axe()
    assert axe is not None
    with browser.tab(page, width=width, features=features) as tab:
        # What is folded is judged as well.
        tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        tab.evaluate(axe.read_text(encoding="utf-8") + "\n;0")
        violations: list[dict[str, Any]] = json.loads(tab.evaluate(RUN))
    problems = [(one["id"], one["help"], [node["html"][:120] for node in one["nodes"][:3]]) for one in violations]
    assert problems == []


@pytest.mark.slow
def test_axe_would_find_a_picture_without_a_name(browser: Browser, page: str) -> None:
    axe = find_axe()
    assert axe is not None
    with browser.tab(page) as tab:
        tab.evaluate(
            "document.querySelectorAll('svg[role=img]').forEach((one) => one.removeAttribute('aria-labelledby'))"
        )
        tab.evaluate("document.querySelectorAll('svg[role=img] > title').forEach((one) => one.remove())")
        tab.evaluate(axe.read_text(encoding="utf-8") + "\n;0")
        assert "svg-img-alt" in {one["id"] for one in json.loads(tab.evaluate(RUN))}
