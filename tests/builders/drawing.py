"""A chart read back: marks by class, and values from positions, through the scales that every drawing carries."""

import math
import re
from xml.etree import ElementTree

NUMBER = r"-?\d+(?:\.\d+)?"


class Drawing:
    """One SVG with its scales turned round."""

    def __init__(self, text: str) -> None:
        self.root = ElementTree.fromstring(text)

    def of(self, *classes: str) -> list[ElementTree.Element]:
        return [one for one in self.root.iter() if set(classes) <= set(one.get("class", "").split())]

    def value(self, axis: str, px: float) -> float:
        low, high, start, stop, *kind = self.root.get(f"data-{axis}", "").split()
        share = (px - float(start)) / (float(stop) - float(start))
        if kind == ["log"]:
            return float(low) * (float(high) / float(low)) ** share
        return float(low) + share * (float(high) - float(low))

    def step(self, axis: str, at: float) -> float:
        """What a tenth of a pixel is worth around the value `at`."""
        low, high, start, stop, *kind = self.root.get(f"data-{axis}", "").split()
        extent = abs(float(stop) - float(start))
        if kind == ["log"]:
            return abs(at) * math.log(float(high) / float(low)) / extent * 0.1 + 1e-12
        return (float(high) - float(low)) / extent * 0.1 + 1e-12

    def spots(self, *classes: str) -> list[tuple[float, float]]:
        paths = "".join(one.get("d", "") for one in self.of(*classes) if "hole" not in one.get("class", ""))
        return [(float(x), float(y)) for x, y in re.findall(rf"M({NUMBER}) ({NUMBER})h0", paths)]


def path_points(d: str) -> list[tuple[float, float]]:
    """Absolute points of a path of relative lines."""
    start, _, rest = d.partition("l")
    x, y = map(float, re.findall(NUMBER, start))
    steps = list(map(float, re.findall(r"-?\d+(?:\.\d)?", rest)))
    points = [(x, y)]
    for dx, dy in zip(steps[::2], steps[1::2], strict=True):
        x, y = x + dx, y + dy
        points.append((x, y))
    return points


def number(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))
