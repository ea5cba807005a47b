"""Read the axes of a search of settings: values as in a sweep, or KEY=LOW..HIGH[:log], a range of numbers."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from harness.config.axes import Axis, AxisPoint, read_axis
from harness.config.catalog import MODEL_KEY
from harness.config.run_config import parse_value
from reference_models.process.errors import ConfigError, did_you_mean
from reference_models.spec import ModelSpec

_RANGE = re.compile(r"""[^,:/"'[]*\.\.[^,/"'[]*""")
_MOST = 1e15
"""Largest absolute value of the ends of a range of numbers: up to this value, floats represent every whole number
exactly."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Range(Axis):
    """A range of numbers that a search may give to a setting; `values` are its two ends, and it has only whole
    numbers if both are whole. `texts` is the range as written."""

    is_log: bool

    @property
    def is_whole(self) -> bool:
        return all(isinstance(end, int) for end in self.values)

    def write(self, value: float) -> str:
        """Return a number of the range as text: as a whole number if the range has only whole numbers, else with four
        significant digits."""
        rounded = round(value) if self.is_whole else float(f"{value:.4g}")
        return str(min(max(rounded, self.values[0]), self.values[1]))


def read_search_axis(text: str, width_keys: Collection[str] = ()) -> Axis:
    """Read one `--axis` of a search. Raises ConfigError for text that is neither values nor a range with numbers in
    it."""
    key, _, rest = text.partition("=")
    if _RANGE.fullmatch(rest) is None:
        return read_axis(text, width_keys)
    low, _, last = rest.partition("..")
    high, colon, scale = last.partition(":")
    key = read_axis(f"{key}={low or 0}").key
    ends = tuple(parse_value(word) for word in (low, high))
    if (colon and scale != "log") or not all(type(end) in (int, float) and abs(end) <= _MOST for end in ends):
        raise ConfigError(f"--axis {text!r:.99}: expected two numbers within {_MOST:g} of 0: {key}=256..2048:log.")
    if ends[0] >= ends[1] or (scale and ends[0] <= 0):
        raise ConfigError(f"--axis {text!r}: an empty range. Give LOW below HIGH, and with :log above 0.")
    return Range(key=key, values=ends, texts=(rest.strip(),), is_log=bool(scale))


def read_space(texts: Iterable[str], width_keys: Collection[str] = ()) -> tuple[Axis, ...]:
    """Read all axes of a search from texts such as KEY=V1,V2. Raises ConfigError, also if a key is given twice."""
    axes = {}
    for axis in (read_search_axis(text, width_keys) for text in texts):
        if axis.key in axes:
            raise ConfigError(f"--axis {axis.key} is given twice. Give all of its values, or its range, in one.")
        axes[axis.key] = axis
    return tuple(axes.values())


def make_point(texts: Mapping[str, str], spec: ModelSpec) -> AxisPoint:
    """Return one point of a search's space: a dict from each key to the setting that `texts` give. Raises ConfigError
    if a setting is wrong, or names code other than the model's own."""
    axes = [read_search_axis(f"{key}={text}", spec.width_keys) for key, text in texts.items()]
    for axis in axes:
        refuse_code(axis, spec)
    return AxisPoint(values={axis.key: axis.values[0] for axis in axes}, texts=dict(texts))


def refuse_code(axis: Axis, spec: ModelSpec) -> None:
    """Raise ConfigError if an axis names code other than the model's own. The file of a search may come from a
    stranger, and must not name code to run."""
    own = {"runtime.implementation": [*spec.implementations], f"runtime.{MODEL_KEY}": []}.get(axis.key)
    wrong = next((str(value) for value in axis.values if own is not None and str(value) not in own), None)
    if wrong is not None:
        known = f"implementations of the model's own: {', '.join(spec.implementations)}"
        raise ConfigError(f"--axis {axis.key}: {wrong!r} is none of the {known}.{did_you_mean(wrong, own or [])}")
