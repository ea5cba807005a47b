"""What every chart of a page is made of: two drawings of the same facts, and the words around them."""

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from reports.charts import svg

WIDE_PX = 960.0
NARROW_PX = 380.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """One entry of a legend: a mark's class, its colour and what it means."""

    mark: str
    words: str
    hue: str = "hue0"


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A chart drawn for wide and for narrow pages; text keeps its size instead of shrinking with the drawing."""

    id: str
    title: str
    description: str
    wide: Markup
    narrow: Markup
    keys: tuple[Key, ...] = ()


def draw_both(
    draw: Callable[[float, str], Markup], *, id_: str, title: str, description: str, keys: tuple[Key, ...] = ()
) -> Figure:
    """Call `draw(width, id)` for both widths."""
    return Figure(
        id=id_,
        title=title,
        description=description,
        wide=draw(WIDE_PX, f"{id_}-w"),
        narrow=draw(NARROW_PX, f"{id_}-n"),
        keys=keys,
    )


def hue(index: int) -> str:
    """Class of the colour (and dash) of configuration `index`; five are told apart, then they repeat."""
    return f"hue{index % 5}"


def reused_curves(id_: str, x: svg.Scale, wide_x: svg.Scale) -> Markup:
    """The wide drawing's curves, squeezed: they are most of a chart's size, and only their width differs."""
    squeeze = (x.stop - x.start) / (wide_x.stop - wide_x.start)
    return svg.tag(
        "use",
        href=f"#{id_.removesuffix('n')}w-curves",
        transform=f"translate({x.start - squeeze * wide_x.start:.2f} 0) scale({squeeze:.5f} 1)",
    )
