"""Every record that a type allows, as a strategy."""

from typing import Annotated, Any, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from rules.records.system import SYSTEM_FIELDS


def records(annotation: Any, bounds: msgspec.Meta | None = None) -> st.SearchStrategy[Any]:
    """Values of an annotation within its bounds."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    low = (bounds.ge if bounds.ge is not None else bounds.gt) if bounds else None
    high = bounds.le if bounds else None
    if origin is Annotated:
        return records(arguments[0], arguments[1])
    if str(origin) == "typing.Literal":
        return st.sampled_from(arguments)
    if origin is tuple:
        if arguments[-1] is not Ellipsis:
            return st.tuples(*map(records, arguments))
        least, most = (bounds.min_length or 0, bounds.max_length) if bounds else (0, None)
        return st.lists(records(arguments[0]), min_size=least, max_size=min(most or 3 + least, 3 + least)).map(tuple)
    if origin is dict:
        if bounds and bounds.min_length:
            return st.fixed_dictionaries(dict.fromkeys(SYSTEM_FIELDS, st.text(max_size=5)))
        return st.dictionaries(records(arguments[0]), records(arguments[1]), max_size=3)
    if arguments:  # a union
        return st.one_of(*map(records, arguments))
    if annotation is int:
        return st.integers(min_value=low, max_value=high)
    if annotation is float:
        exclusive = bool(bounds and bounds.gt is not None)
        return st.floats(low, high, allow_nan=False, allow_infinity=False, exclude_min=exclusive)
    if annotation is str:
        if bounds and bounds.pattern:
            return st.from_regex(bounds.pattern.removesuffix("$") + r"\Z")
        return st.text(min_size=(bounds.min_length or 0) if bounds else 0, max_size=8)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return st.builds(annotation, **{f.name: records(f.type) for f in msgspec.structs.fields(annotation)})
    nothing = {type(None): st.none(), msgspec.UnsetType: st.just(msgspec.UNSET)}
    simple = {bool: st.booleans(), **nothing, Any: st.none() | st.integers() | st.text(max_size=5)}
    return simple[annotation]
