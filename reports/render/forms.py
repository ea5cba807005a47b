"""Lists the renderers of a document's blocks for other programs, by the name that the option --format gives them."""

from collections.abc import Callable, Mapping, Sequence

from reports.document.blocks import Block
from reports.render.latex import render_latex
from reports.render.markdown import render_markdown

FORMS: Mapping[str, Callable[[Sequence[Block]], str]] = {
    "md": render_markdown,
    "latex": render_latex,
}
