"""Figures, which every chart of a page is: two drawings of the same facts, and the words around them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

from markupsafe import Markup

from reports.charts import svg

WIDE_PX = 960.0
NARROW_PX = 380.0
FOOT_PX = 44.0
"""Room below a plot for the x axis' labels and name."""


class Caption(TypedDict):
    """Id, title and description of a figure, the latter for those who do not see the drawing."""

    id_: str
    title: str
    description: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LegendKey:
    """Entry of a legend: a mark's class, its colour and its meaning."""

    mark: str
    words: str
    hue: str = "hue0"


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """Chart drawn for wide and for narrow pages; text keeps its size instead of shrinking with the drawing."""

    id: str
    title: str
    description: str
    wide: Markup
    narrow: Markup
    keys: tuple[LegendKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Plot:
    """Marks of one drawing from back to front, its height, and the scales from which values can be read back."""

    marks: Sequence[str]
    height: float
    x: svg.Scale | None = None
    y: svg.Scale | None = None

    def drawn(self, width: float, **caption: Unpack[Caption]) -> Markup:
        """Draw the marks as one image of `width` px."""
        return svg.drawing(*self.marks, width=width, height=self.height, x=self.x, y=self.y, **caption)


def draw_both(
    draw: Callable[[float, str], Plot], keys: Sequence[LegendKey] = (), **caption: Unpack[Caption]
) -> Figure:
    """Call `draw(width, id)` for both widths."""
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
    """Return the legend of curves: by configuration (`names` by hue) where several are drawn, else of runs."""
    return [LegendKey(mark="curve", words=name, hue=hue(index)) for index, name in names.items()] or [
        LegendKey(mark="curve", words="one run")
    ]


def num_ticks(width: float) -> int:
    """Return the most labels that an x axis of a drawing of `width` px may have."""
    return 8 if width > 600 else 4


def reused_curves(id_: str, x: svg.Scale, wide_x: svg.Scale) -> Markup:
    """Draw the wide drawing's curves in narrow form: curves are most of a chart's size, and differ only in width."""
    squeeze = (x.stop - x.start) / (wide_x.stop - wide_x.start)
    return svg.tag(
        "use",
        href=f"#{id_.removesuffix('n')}w-curves",
        transform=f"translate({x.start - squeeze * wide_x.start:.2f} 0) scale({squeeze:.5f} 1)",
    )
