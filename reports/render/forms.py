"""Lists the renderers of blocks for output formats other than HTML and terminal text (Markdown, LaTeX), by the name
of the format in the option --format."""

from collections.abc import Callable, Mapping, Sequence

from reports.document.blocks import Block
from reports.render.latex import render_latex
from reports.render.markdown import render_markdown

FORMS: Mapping[str, Callable[[Sequence[Block]], str]] = {
    "md": render_markdown,
    "latex": render_latex,
}
