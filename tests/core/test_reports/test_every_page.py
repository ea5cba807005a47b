"""Every kind of page, as its verb writes it: its title answers, its head says where from, nothing is said twice, and
its commands are ones that the command line takes."""

import base64
import html
import re
import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import click
import pytest
from browser import Browser, find_browser
from hostile_folders import begin_walk
from report_builder import Page, write_run_set
from seams import find_seams

from harness.cli import cli
from reports.page.content import gather_everything
from reports.page.report import render_report

CORE_PAGES: Mapping[str, tuple[str, str]] = {
    "run": ("dlrm_tiny", "no score"),
    "versus": ("dlrm_tiny", "no difference|not shown|decides nothing|[0-9]x"),
    "sweep": ("dlrm_tiny", "measured .* as .*which decides nothing|fastest|configurations"),
    "report": ("dlrm_tiny", "no score"),
}
"""By the command line that writes a page, of `all_words`: the subject of its title, and a pattern of its answer."""
PAGES = {**CORE_PAGES, **find_seams("SHOWN_PAGES")}
QUICK = ("run", "trace")
HEAD = ("Machine", "Date", "Command", "Code", "Noise")


@pytest.fixture(
    scope="module", params=[name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PAGES]
)
def written(
    request: pytest.FixtureRequest, data_root: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str]:
    """The name of a command line, and the last page that it wrote."""
    folder = tmp_path_factory.mktemp("page")
    walk = begin_walk(request.param, data_root, folder)
    assert walk.ended.code in (0, 3, 4, 7), walk.ended.err
    pages = [path for path in (folder / "whole").rglob("*.html") if path.is_file() and not path.is_symlink()]
    folders = {path.parent for path in pages}
    whole = [path for path in pages if folders.isdisjoint(path.parent.parents)]  # not of a part of what has one
    newest = max(whole, key=lambda path: path.stat().st_mtime_ns)
    return request.param, newest.read_text(encoding="utf-8")


def test_the_title_has_the_subject_and_an_answer(written: tuple[str, str]) -> None:
    name, page = written
    title = html.unescape(re.findall("<title>(.*?)</title>", page)[0]).replace("\N{NO-BREAK SPACE}", " ")
    subject, answer = PAGES[name]
    assert subject in title and re.search(answer, title.replace("×", "x")), title


def test_the_head_names_machine_date_command_code_and_the_next_command(written: tuple[str, str]) -> None:
    page = written[1]
    head = "".join(re.findall('<dl class="head">(.*?)</dl>', page, re.DOTALL))
    rows = dict(re.findall(r"<dt>([^<]*)</dt><dd>(.*?)</dd>", head))
    assert [row for row in rows if row not in ("Differs", "Next")] == [*HEAD]
    assert all(rows[row] for row in HEAD) and rows["Next"].startswith("<code>dlrmbench "), rows
    assert rows["Command"].startswith("<code>dlrmbench ") and re.fullmatch(r"\d{4}-\d\d-\d\d", rows["Date"])
    assert page.index('<dl class="head">') < page.index("<nav")


def test_nothing_is_said_twice(written: tuple[str, str]) -> None:
    page = written[1].partition("<main")[2].partition("<footer")[0]
    for pattern in ("<h[2-4][^>]*>(.*?)</h[2-4]>", '<p class="(?:lead|note)">(.*?)</p>', ' id="([^"]*)"'):
        twice = [text for text, number in Counter(re.findall(pattern, page)).items() if number > 1]
        assert not twice or (pattern.startswith("<p") and all(len(text) < 80 for text in twice)), twice


def test_the_glossary_has_words_of_the_page_alone(written: tuple[str, str]) -> None:
    main, _, footer = written[1].partition("<footer")
    said = Page("<!doctype html>" + main.partition("<main")[2].partition(">")[2].replace("</main>", "")).text.lower()
    terms = re.findall("<dt>([^<]*)</dt>", footer.partition('id="glossary"')[2].partition("</section>")[0])
    assert all(html.unescape(term).lower() in said for term in terms), terms


def commands_of(page: str) -> set[str]:
    """Every command line on a page: in its head, to copy, and between quotation marks in a sentence."""
    shown = page.partition('<script type="application/json"')[0].partition("</style>")[2]
    blocks = re.findall(r"<code>(.*?)</code>", shown, re.DOTALL)
    lines = [line for block in blocks for line in html.unescape(block).split("\n") if line.startswith("dlrmbench ")]
    sentences = html.unescape(re.sub("<[^>]*>", "", shown))
    return {*lines, *re.findall(r"'(dlrmbench [^'\n]{2,300})'", sentences)}


def parse(command: str) -> None:
    """Have the command line's own parser take a command. Raises click.UsageError where it does not."""
    words = shlex.split(command)
    whole = click.Context(cli, info_name=words[0], **cli.context_settings)
    name, verb, rest = cli.resolve_command(whole, words[1:])
    assert verb is not None
    verb.make_context(name, rest, parent=whole).close()


def test_the_command_line_takes_every_command(written: tuple[str, str]) -> None:
    commands = commands_of(written[1])
    assert commands
    for command in commands:
        try:
            parse(command)
        except click.UsageError as error:
            pytest.fail(f"{command}: {error.format_message()}")


# Marks that are outside of their drawing by more than rounding.
_OUTSIDE = """
[...document.querySelectorAll('svg[role=img]')].filter((one) => one.getClientRects().length).flatMap((drawn) => {
  const whole = drawn.getBoundingClientRect();
  const marks = [...drawn.querySelectorAll('text, path, circle, line, rect')];
  const isOutside = (box) => box.left < whole.left - 1 || box.right > whole.right + 1
    || box.top < whole.top - 1 || box.bottom > whole.bottom + 1;
  return marks.filter((one) => !one.closest('[clip-path], clipPath')).filter((one) => {
    const box = one.getBoundingClientRect();
    return (box.width || box.height) && isOutside(box);
  }).map((one) => `${drawn.parentNode.parentNode.parentNode.id}: ${one.tagName} ${one.textContent}`);
})
"""


@pytest.mark.slow
@pytest.mark.skipif(find_browser() is None, reason="no Chromium on PATH (apt-get install chromium)")
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_leaves_its_chart_or_the_page_and_nothing_is_asked_for(
    browser: Browser, written: tuple[str, str], tmp_path: Path, width: int, scheme: str
) -> None:
    path = tmp_path / "page.html"
    path.write_text(written[1], encoding="utf-8")
    with browser.tab(path.as_uri(), width=width, height=740, features=[("prefers-color-scheme", scheme)]) as tab:
        assert tab.evaluate("document.querySelector('details.made').open") is (width > 640)
        answered = tab.evaluate("document.querySelector('nav').getBoundingClientRect().bottom")
        assert answered < 740, "a phone's first screen has more than the head"
        tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert tab.evaluate(_OUTSIDE) == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert (tab.requests(), tab.complaints()) == ([path.as_uri()], [])
        assert tab.evaluate("document.querySelector('.head').getBoundingClientRect().top") < 600


@pytest.mark.slow
@pytest.mark.skipif(find_browser() is None, reason="no Chromium on PATH (apt-get install chromium)")
def test_a_summary_is_one_sheet(browser: Browser, tmp_path: Path) -> None:
    write_run_set(tmp_path / "sets" / "one", interrupted=False)
    path = tmp_path / "page.html"
    path.write_text(render_report(gather_everything([tmp_path / "sets"], second_opinion=False), is_brief=True))
    with browser.tab(path.as_uri()) as tab:
        sheet = browser.call("Page.printToPDF", tab.session, paperWidth=8.27, paperHeight=11.69)
    printed = base64.b64decode(sheet["data"])
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1


def test_a_command_that_is_refused_is_found() -> None:
    page = "</style><code>dlrmbench run dlrm_tiny --seed 1\nexport A=1</code><p>or 'dlrmbench resume a --rnus 5'</p>"
    assert commands_of(page) == {"dlrmbench run dlrm_tiny --seed 1", "dlrmbench resume a --rnus 5"}
    parse("dlrmbench run dlrm_tiny --seed 2147483647")
    with pytest.raises(click.UsageError):
        parse("dlrmbench resume a --rnus 5")
