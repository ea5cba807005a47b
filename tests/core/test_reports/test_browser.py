"""The page in a real browser: quiet, alone, legible everywhere, and whole without scripts."""

import base64
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from browser import Browser, find_browser
from log_builder import make_records, make_runs
from report_builder import Page, write_report, write_run_set
from seams import find_seams

from rules.benchmarks.loader import load_benchmark
from rules.extensions import load_place

pytestmark = pytest.mark.skipif(
    find_browser() is None, reason="no Chromium on PATH (apt-get install chromium) nor in $DLRMBENCH_TEST_BROWSER"
)
NASTY = "</script><img src=x onerror=document.title='owned'>"
NARROW = 360
OTHERS = find_seams("HOSTILE_PAGES")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two comparable sets, one with hostile and very long names, one with a run that did not converge."""
    folder = tmp_path_factory.mktemp("page")
    runs = make_runs(load_benchmark("dlrm_tiny"), platform=NASTY, organization="x" * 5000)
    write_run_set(folder / "one", runs=runs, changes={"command": "y" * 3000})
    failed = make_records(load_benchmark("dlrm_tiny"), converged=False, num_evals=20, seed=9)
    write_run_set(folder / "two", runs=[*make_runs(load_benchmark("dlrm_tiny"))[:4], failed])
    return write_report([folder], folder / "report.html", title=NASTY).as_uri()


@pytest.fixture(scope="module", params=["report", *OTHERS])
def any_page(request: pytest.FixtureRequest, page: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """That page, and others whose every text is hostile."""
    if request.param == "report":
        return page
    return str(load_place(OTHERS[request.param])(tmp_path_factory.mktemp("other"), NASTY).as_uri())


@pytest.mark.slow
def test_one_request_and_no_complaint(browser: Browser, page: str, any_page: str) -> None:
    with browser.tab(any_page) as tab:
        title = tab.evaluate("document.title")
        assert (tab.requests(), tab.complaints()) == ([any_page], [])
        assert title != "owned" and (title.startswith("</script>") or any_page != page)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, 800, 1280])
def test_the_page_never_scrolls_sideways(browser: Browser, any_page: str, width: int, scheme: str) -> None:
    with browser.tab(any_page, width=width, features=[("prefers-color-scheme", scheme)]) as tab:
        tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_scheme_follows_the_system_and_the_toggle(browser: Browser, any_page: str) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    with browser.tab(any_page, features=[("prefers-color-scheme", "dark")]) as tab:
        assert tab.evaluate(background) == "rgb(20, 23, 26)"
        tab.evaluate("document.querySelector('#tools button').click()")
        assert tab.evaluate(background) == "rgb(255, 255, 255)"
        tab.evaluate("localStorage.clear()")  # which files share in some browsers
    with browser.tab(any_page, features=[("prefers-color-scheme", "dark")], media="print") as tab:
        assert tab.evaluate(background) == "rgb(255, 255, 255)"


@pytest.mark.slow
def test_wide_and_narrow_pages_show_one_drawing_each(browser: Browser, any_page: str) -> None:
    shown = "[...document.querySelectorAll('svg[role=img]')].filter((one) => one.getClientRects().length).length"
    for width in (NARROW, 1280):
        with browser.tab(any_page, width=width) as tab:
            # Of the drawings between which the reader chooses, the first is shown.
            assert tab.evaluate(shown) == tab.count("figure") - tab.count(".view:not(.v0)") > 4
            smallest = (
                "Math.min(...[...document.querySelectorAll('svg[role=img] text.axis')]"
                ".filter((one) => one.getClientRects().length).map((one) => one.getBoundingClientRect().height))"
            )
            assert tab.evaluate(smallest) > 9


@pytest.mark.slow
def test_narrow_curves_are_drawn_although_the_wide_drawing_is_hidden(browser: Browser, page: str) -> None:
    with browser.tab(page, width=NARROW) as tab:
        box = tab.evaluate(
            "(() => { const box = document.querySelector('#group1-convergence-chart')"
            ".querySelector('.narrow use').getBoundingClientRect(); return [box.width, box.height]; })()"
        )
        assert min(box) > 50


@pytest.mark.slow
def test_without_scripts_everything_is_there_but_the_buttons(browser: Browser, any_page: str) -> None:
    selectors = ("table", "tr", "svg[role=img]", "details", "section", "article")
    with browser.tab(any_page) as tab:
        with_scripts = {selector: tab.count(selector) for selector in selectors}
        assert tab.count("button") > 4
    with browser.tab(any_page, scripts=False) as tab:
        assert {selector: tab.count(selector) for selector in selectors} == with_scripts
        assert tab.count("button") == 0


@pytest.mark.slow
def test_without_scripts_the_page_says_the_same(browser: Browser, any_page: str) -> None:
    texts = []
    for scripts in (True, False):
        with browser.tab(any_page, scripts=scripts) as tab:
            root = browser.call("DOM.getDocument", tab.session)["root"]["nodeId"]
            main = browser.call("DOM.querySelector", tab.session, nodeId=root, selector="main")["nodeId"]
            html = browser.call("DOM.getOuterHTML", tab.session, nodeId=main)["outerHTML"]
        # Headings of columns turn into buttons; other buttons only offer to copy, and to save charts.
        html = re.sub(r'<button type="button">Copy</button>|<p class="save">.*?</p>', "", html)
        texts.append(Page(html).text.replace(" ", ""))
    assert texts[0] == texts[1]
    assert len(texts[0]) > 5000


@pytest.mark.slow
def test_every_chart_is_saved_as_svg_with_its_styles_and_as_png(browser: Browser, any_page: str) -> None:
    collect = (
        "globalThis.saved = []; HTMLAnchorElement.prototype.click = function () {"
        " saved.push([this.download, this.href]); };"
        "document.querySelectorAll('.save button').forEach((one) => one.click());"
        "new Promise((done) => { const look = () => saved.length === document.querySelectorAll('.save button').length"
        " ? done(saved) : setTimeout(look, 20); look(); })"
    )
    with browser.tab(any_page) as tab:
        saved = tab.evaluate(collect)
        assert len(saved) == 2 * tab.count("figure") > 2
        assert tab.complaints() == []
    for name, url in saved:
        if name.endswith(".svg"):
            text = unquote(url.partition(",")[2])
            assert text.startswith("<svg") and 'xmlns="http://www.w3.org/2000/svg"' in text
            assert "var(" not in text and 'fill="rgb' in text
        else:
            assert name.endswith(".png") and base64.b64decode(url.partition(",")[2]).startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_reader_chooses_the_axis_with_and_without_scripts(browser: Browser, page: str) -> None:
    shown = (
        "[...document.querySelectorAll('#group1-convergence-chart .view')]"
        ".map((one) => one.getClientRects().length > 0)"
    )
    for scripts in (True, False):
        with browser.tab(page, scripts=scripts) as tab:
            assert tab.evaluate(shown) == [True, False, False]
            tab.evaluate("document.querySelector('#group1-convergence-chart .r1').click()")
            assert tab.evaluate(shown) == [False, True, False]


@pytest.mark.slow
def test_a_configuration_is_hidden_in_every_drawing_of_a_chart_but_not_on_paper(browser: Browser, page: str) -> None:
    shown = (
        "[...document.querySelectorAll('#group1-convergence-chart .wide g.hue1')]"
        ".map((one) => getComputedStyle(one).display !== 'none')"
    )
    for scripts, media in ((False, "screen"), (True, "print")):
        with browser.tab(page, scripts=scripts, media=media) as tab:
            assert tab.count("#group1-convergence-chart .series input") == 2
            before = tab.evaluate(shown)
            assert len(before) >= 3 and all(before)
            tab.evaluate("document.querySelector('#group1-convergence-chart .s1').click()")
            assert set(tab.evaluate(shown)) == {media == "print"}


@pytest.mark.slow
def test_findings_are_filtered(browser: Browser, tmp_path: Path) -> None:
    # A repeated record is an error or a warning, too few runs are a warning, and own results have remarks.
    runs = make_runs(load_benchmark("dlrm_tiny"))
    runs[0] = [*runs[0], runs[0][3]]
    write_run_set(tmp_path / "set", runs=runs[:3])
    with browser.tab(write_report([tmp_path], tmp_path / "page.html").as_uri()) as tab:
        kinds = tab.evaluate("[...document.querySelectorAll('.findings input')].map((one) => one.className)")
        assert kinds[0] == "only-all" and len(kinds) > 2
        shown = (
            "[...document.querySelectorAll('.finding')].filter((one) => one.getClientRects().length)"
            ".map((one) => one.className)"
        )
        everything = tab.evaluate(shown)
        for kind in kinds[1:]:
            tab.evaluate(f"document.querySelector('.findings .{kind}').click()")
            wanted = "finding " + kind.removeprefix("only-")
            assert tab.evaluate(shown) == [one for one in everything if one == wanted] != []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 3840])
def test_verdicts_and_comparisons_are_read_without_scrolling(browser: Browser, page: str, width: int) -> None:
    hidden = (
        "[...document.querySelectorAll('.verdicts, .comparison')]"
        ".map((one) => one.parentNode.scrollWidth - one.parentNode.clientWidth)"
    )
    with browser.tab(page, width=width) as tab:
        assert set(tab.evaluate(hidden)) == {0}


@pytest.mark.slow
def test_a_table_is_sorted_by_keyboard(browser: Browser, page: str) -> None:
    column = "[...document.querySelectorAll('#group1-runs-table tbody tr')].map((row) => row.cells[4].textContent)"
    head = "document.querySelector('#group1-runs-table thead th:nth-child(5)')"
    with browser.tab(page) as tab:
        tab.evaluate(f"{head}.querySelector('button').focus()")
        tab.press("Enter", 13)
        rising = tab.evaluate(column)
        assert tab.evaluate(f"{head}.getAttribute('aria-sort')") == "ascending"
        tab.press("Enter", 13)
        falling = tab.evaluate(column)
        assert tab.evaluate(f"{head}.getAttribute('aria-sort')") == "descending"
    known = [float(text) for text in rising if text != "—"]
    assert known == sorted(known) and len(set(known)) > 1
    assert [float(text) for text in falling if text != "—"] == known[::-1]
    # What has no value is last either way.
    assert rising[-1] == falling[-1] == "—"


@pytest.mark.slow
def test_forced_colours_keep_every_mark_visible(browser: Browser, page: str) -> None:
    with browser.tab(page, features=[("forced-colors", "active")]) as tab:
        strokes = tab.evaluate(
            "[...document.querySelectorAll('.wide .spots:not(.hole)')].map((one) => getComputedStyle(one).stroke)"
        )
        assert strokes and set(strokes) == {tab.evaluate("getComputedStyle(document.body).color")}


@pytest.mark.slow
def test_print_shows_what_is_folded_on_white(browser: Browser, page: str) -> None:
    with browser.tab(page, features=[("prefers-color-scheme", "dark")], media="print") as tab:
        folded = tab.evaluate(
            "[...document.querySelectorAll('details:not([open]) > :not(summary)')]"
            ".map((one) => one.getBoundingClientRect().height)"
        )
        assert folded and min(folded) > 0
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert tab.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"


@pytest.mark.slow
def test_printing_opens_what_is_folded(browser: Browser, page: str) -> None:
    with browser.tab(page) as tab:
        tab.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert tab.count("details:not([open])") == 0
        tab.evaluate("dispatchEvent(new Event('afterprint'))")
        assert tab.count("details:not([open])") > 0
        printed = tab.browser.call("Page.printToPDF", tab.session)["data"]
        assert len(printed) > 10_000
