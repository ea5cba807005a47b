"""Figures, the common form of every chart on a page: a wide and a narrow drawing of the same data, title and
legend."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

from markupsafe import Markup

from reports.charts import svg

WIDE_PX = 960.0
NARROW_PX = 380.0
FOOT_PX = 44.0
"""Height, in px, below a plot for the labels and the name of the x axis."""


class Caption(TypedDict):
    """Id, title and description of a chart; screen readers read the description in place of the drawing."""

    id_: str
    title: str
    description: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LegendKey:
    """Entry of a chart's legend: CSS class of the mark, its colour, and the words that explain it."""

    mark: str
    words: str
    hue: str = "hue0"


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """Chart drawn twice, for wide and for narrow pages, so that text keeps its size instead of shrinking with the
    drawing."""

    id: str
    title: str
    description: str
    wide: Markup
    narrow: Markup
    keys: tuple[LegendKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Plot:
    """Marks of one chart drawing, from back to front, its height in px, and the scales that map pixels back to
    values."""

    marks: Sequence[str]
    height: float
    x: svg.Scale | None = None
    y: svg.Scale | None = None

    def drawn(self, width: float, **caption: Unpack[Caption]) -> Markup:
        """Draw the plot's marks as one SVG image of `width` px."""
        return svg.drawing(*self.marks, width=width, height=self.height, x=self.x, y=self.y, **caption)


def draw_both(
    draw: Callable[[float, str], Plot], keys: Sequence[LegendKey] = (), **caption: Unpack[Caption]
) -> Figure:
    """Make a figure of two drawings of a chart: call `draw(width in px, id)` for the wide and for the narrow page."""
    id_, title, description = caption["id_"], caption["title"], caption["description"]
    wide, narrow = (
        draw(width, drawn_id).drawn(width, id_=drawn_id, title=title, description=description)
        for width, drawn_id in ((WIDE_PX, f"{id_}-w"), (NARROW_PX, f"{id_}-n"))
    )
    return Figure(id=id_, title=title, description=description, wide=wide, narrow=narrow, keys=tuple(keys))


def hue(index: int) -> str:
    """Return the CSS class of the colour and dash of configuration `index`; colours repeat after five
    configurations."""
    return f"hue{index % 5}"


def curve_keys(names: Mapping[int, str]) -> list[LegendKey]:
    """Return the legend of a chart of curves: an entry for each configuration in `names`, which maps colour numbers
    to names. Where `names` is empty, the only entry is 'one run'."""
    return [LegendKey(mark="curve", words=name, hue=hue(index)) for index, name in names.items()] or [
        LegendKey(mark="curve", words="one run")
    ]


def num_ticks(width: float) -> int:
    """Return the largest number of tick labels on the x axis of a drawing of `width` px."""
    return 8 if width > 600 else 4


def reused_curves(id_: str, x: svg.Scale, wide_x: svg.Scale) -> Markup:
    """Draw the curves of a chart's narrow drawing: refer to the curves of the wide drawing, squeezed to the smaller
    width. Curves are most of a chart's bytes, and are stored only once in this way."""
    squeeze = (x.stop - x.start) / (wide_x.stop - wide_x.start)
    return svg.tag(
        "use",
        href=f"#{id_.removesuffix('n')}w-curves",
        transform=f"translate({x.start - squeeze * wide_x.start:.2f} 0) scale({squeeze:.5f} 1)",
    )
