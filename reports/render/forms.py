"""Lists the renderers of blocks for output formats other than HTML and terminal text (Markdown, LaTeX). `FORMS` is a
dict from a value of the option --format to the function that renders."""

from collections.abc import Callable, Mapping, Sequence

from reports.document.blocks import Block
from reports.render.latex import render_latex
from reports.render.markdown import render_markdown

FORMS: Mapping[str, Callable[[Sequence[Block]], str]] = {
    "md": render_markdown,
    "latex": render_latex,
}
