"""Renders a page as HTML, in one self-contained file."""

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from reports.document.blocks import Cell, Fact, Table
from reports.document.page import PageView

_TAG = re.compile(r"<[^>]*>")
_PERCENT = re.compile(r"(?<=\d) %")
_UNIT = re.compile(r"(?<=\d) (?=(?:µs|ms|s|min|h|[KMGT]i?B|[kMGT])\b)")
_BREAK = re.compile(r"(?<=_)(?=\w)")
_TEMPLATES = Path(__file__).parent / "templates"


def render_html(page: PageView) -> str:
    """Return the page as HTML. Its content security policy allows only its own style sheet and script, and no
    network."""
    style, script = _asset("style.css"), _asset("report.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    # The page's own style sheet and script are the only text that is not escaped.
    template = _environment().get_template("report.html.j2")
    return template.render(page=page, policy=policy, style=Markup(style), script=Markup(script))


def embed_json(content: Mapping[str, Any]) -> Markup:
    """Return JSON that can be embedded in an HTML script element and cannot end it, whatever its strings hold."""
    text = json.dumps(_known(finite(content)), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _known(value: Any) -> Any:
    """Return a JSON value without null members: in the page's data, an absent member means the same as null and takes
    no space."""
    if isinstance(value, Mapping):
        known = {key: _known(entry) for key, entry in value.items()}
        return {key: entry for key, entry in known.items() if entry is not None}
    if isinstance(value, list):
        return None if value and all(entry is None for entry in value) else [_known(entry) for entry in value]
    return value


def finite(value: Any) -> Any:
    """Return a JSON value with the numbers that JSON cannot express (infinity, not a number) replaced by None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return value


@cache
def _asset(name: str) -> str:
    """Return a style sheet or script without the white space and comments that are for its authors only. Strings in
    the file must contain nothing that would be removed as white space or comment."""
    text = (_TEMPLATES / name).read_text(encoding="utf-8").strip()
    if name.endswith(".css"):
        text = re.sub(r"\s+", " ", text)
        return re.sub(r" ?([{};]) ?", r"\1", text).replace(";}", "}").replace(": ", ":").replace(", ", ",")
    return re.sub(r"\n\s*(//.*)?(?=\n)|(?<=\n) +", "", text)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_keep_together,
    )
    environment.globals["rows"] = _rows
    environment.filters["breakable"] = _breakable
    environment.filters["said_in"] = _said_in
    return environment


def _said_in(terms: Sequence[Fact], text: str) -> list[Fact]:
    """Return the glossary entries whose term occurs in the text of the page, in the singular or plural, in upper or
    lower case."""
    lower = _TAG.sub(" ", text).lower()
    return [term for term in terms if re.search(rf"\b{re.escape(term.name.lower())}(s|es)?\b", lower)]


_WIDEST_WORD = 16
"""Number of characters of a word up to which line breaks in it need no control, since it fits into a line on a
phone."""
_WIDEST_NAME = 24
"""Number of characters up to which a part of a longer word, before or after '=', is not broken at its underscores."""


def _breakable(text: str) -> Markup:
    """Return a text as HTML with its line breaks controlled. A number stays with its unit. A long word is broken only
    after an equal sign; a long name before or after that sign is also broken at its underscores."""
    words = str(escape(_UNIT.sub("\u00a0", _keep_together(text)))).split(" ")
    return Markup(" ".join(_whole(word) if len(word) > _WIDEST_WORD else word for word in words))


def _whole(word: str) -> str:
    parts = (part if len(part) <= _WIDEST_NAME else _BREAK.sub("<wbr>", part) for part in word.split("="))
    return f'<span class="whole">{"=<wbr>".join(parts)}</span>'


def _keep_together(value: Any) -> Any:
    """Return a text with no line break between a number and its percent sign; any other value unchanged."""
    return _PERCENT.sub("\u00a0%", value) if type(value) is str and " %" in value else value


def _rows(table: Table) -> Markup:
    """Return the HTML rows of a table, made without a template: a page of a thousand configurations has tens of
    thousands of cells, for which a template takes three times as long."""
    numbers = [column.is_number and not table.is_numeric for column in table.columns]
    texts = []
    for row in table.rows:
        texts.append("<tr>")
        for place, cell in enumerate(row):
            name = f' id="{_text(cell.id)}"' if cell.id and not place else ""
            kind = ' class="n"' if numbers[place] and place else ""
            order = f' data-s="{_text(cell.sort)}"' if cell.sort and table.is_sortable else ""
            note = f' title="{_text(cell.note)}"' if cell.note and place else ""
            texts.append(f"<td{kind}{order}{note}>" if place else f'<th scope="row"{name}{order}>')
            texts.append(_cell(cell))
        texts.append("\n")
    return Markup("".join(texts))


def _cell(cell: Cell) -> str:
    text: str = _text(cell.text)
    if cell.anchor:
        text = f'<a href="#{_text(cell.anchor)}">{text}</a>'
    elif cell.kind == "code":
        text = f"<code>{text}</code>"
    elif cell.kind:
        text = f'<span class="{_text(cell.kind)}">{text}</span>'
    return f"{text}<small>{_text(cell.sub)}</small>" if cell.sub else text


def _text(text: str) -> str:
    """Return text escaped for HTML, as the templates escape it."""
    return str(escape(_keep_together(text)))


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
