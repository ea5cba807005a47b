"""Read the axes of a sweep: from `--axis KEY=V1,V2` to the changed values of each configuration."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from harness.config.catalog import MODEL_KEY
from harness.config.run_config import OVERRIDABLE, Override, check_known, is_fixed, parse_value
from reference_models.process.errors import ConfigError, did_you_mean
from rules.benchmarks.loader import Benchmark

MAX_CONFIGURATIONS = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """One axis of a sweep: a configuration key and its values, in the order given and parsed (`values`), and as the
    user wrote them (`texts`)."""

    key: str
    values: tuple[Any, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class AxisPoint:
    """One configuration of a sweep: the value of each axis by its key, parsed (`values`) and as the user wrote it
    (`texts`)."""

    values: dict[str, Any]
    texts: dict[str, str]

    @property
    def label(self) -> str:
        """Label of a sweep's configuration, such as 'global_batch_size=512 threads=1': keys without their
        sections."""
        return " ".join(f"{key.partition('.')[2]}={text}" for key, text in self.texts.items())

    @property
    def folder_name(self) -> str:
        """Name of the folder of the configuration's run set, of characters that every file system accepts."""
        words = "-".join(f"{key.partition('.')[2]}-{text}" for key, text in self.texts.items())
        return "".join(char if char.isascii() and (char.isalnum() or char in "_.-^") else "-" for char in words)[:100]


def read_axis(text: str, width_keys: Collection[str] = ()) -> Axis:
    """Return one axis of a sweep from `--axis section.key=V1,V2`. Commas inside brackets or quotes belong to a value.

    Values of the model's `width_keys` may be written 512-256-16, or 512^3: three layers of 512.
    """
    key, equals, rest = text.partition("=")
    key = key.strip()
    section, _, name = key.partition(".")
    texts = tuple(split_values(rest))
    if not equals or not name or not all(texts):
        raise ConfigError(f"--axis {text!r}: expected section.key=V1,V2, such as train.global_batch_size=512,1024.")
    if section not in OVERRIDABLE:
        raise ConfigError(f"--axis {text!r}: unknown section {section!r}.{did_you_mean(section, [*OVERRIDABLE])}")
    are_widths = section == "model" and name in width_keys
    values = tuple(_read_widths(key, text) if are_widths else parse_value(text) for text in texts)
    for index, value in enumerate(values):
        if value in values[:index]:
            raise ConfigError(f"--axis {text!r}: {texts[index]} is given twice.")
    return Axis(key=key, values=values, texts=texts)


def split_values(text: str) -> list[str]:
    """Return a list of values split at its commas outside brackets and quotes, without blanks around the values."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
        if char == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def make_points(axes: Sequence[Axis]) -> tuple[AxisPoint, ...]:
    """Return a sweep's configurations: every combination of the axes' values, the last axis varying fastest. Raises
    ConfigError."""
    keys = [axis.key for axis in axes]
    if not axes:
        raise ConfigError("a sweep needs at least one --axis KEY=V1,V2.")
    for index, key in enumerate(keys):
        if key in keys[:index]:
            raise ConfigError(f"--axis {key} is given twice. List all its values in one: {key}=V1,V2,V3.")
    if (num_points := prod(len(axis.values) for axis in axes)) > MAX_CONFIGURATIONS:
        raise ConfigError(f"{num_points} configurations; a sweep takes at most {MAX_CONFIGURATIONS}.")
    values, texts = product(*(axis.values for axis in axes)), product(*(axis.texts for axis in axes))
    return tuple(
        AxisPoint(values=dict(zip(keys, row, strict=True)), texts=dict(zip(keys, row_texts, strict=True)))
        for row, row_texts in zip(values, texts, strict=True)
    )


def refuse_other_problems(axes: Sequence[Axis], benchmark: Benchmark) -> None:
    """Raise ConfigError for an axis that changes the training problem, since times to its target could not be
    compared."""
    free = [f"train.{key}" for key, rule in benchmark.closed.items() if rule.free] or ["nothing"]
    for axis in axes:
        check_known(Override(key=axis.key, value=axis.values[0], source=f"--axis {axis.key}"), benchmark.sections)
        if is_fixed(benchmark, axis.key) or axis.key == f"runtime.{MODEL_KEY}":
            raise ConfigError(
                f"--axis {axis.key} changes the problem that {benchmark.name} poses: times to its target could not "
                "be compared. Measure samples/s instead, where anything may vary: --throughput STEPS. Without it, "
                "vary runtime.* or what the definition leaves free: " + ", ".join(free) + "."
            )


def overrides_of(point: AxisPoint) -> list[Override]:
    """Return the values that one configuration of a sweep sets, one for each axis. Keys of [model] that follow from
    these values are not included; `resolve` derives them later."""
    return [Override(key=key, value=value, source=f"--axis {key}") for key, value in point.values.items()]


def _read_widths(key: str, text: str) -> Any:
    if text.startswith("["):
        return parse_value(text)
    width, power, depth = text.partition("^")
    parts = [width] * int(depth) if power and depth.isdecimal() and 0 < int(depth) <= 100 else text.split("-")
    if not all(part.isdecimal() and part.isascii() for part in parts):
        raise ConfigError(f"--axis {key}: {text!r}: expected widths such as 512-256, 512^3 or [512, 256].")
    return [int(part) for part in parts]
