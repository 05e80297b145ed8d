"""Converts Python values to the text that the command reads as values of scenarios and arguments."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from os import PathLike, fsdecode, fspath
from typing import Any

from unrack.errors import Refused, WrongType

# Text that needs no quotes: a TOML reader does not take it for another type, and it has no separator of lists.
_PLAIN = re.compile(r"[A-Za-z0-9_.%+-]*[A-Za-z%][A-Za-z0-9_.%+-]*")
_NOT_TEXT = re.compile(
    r"[+-]?(inf|nan)|true|false|[+-]?[0-9._]+[eE][+-]?[0-9]+|0[xob][0-9A-Fa-f_]+|[0-9-]+[Tt:].*"
)
# Exclusive limit of the absolute value of a number in a scenario.
_MOST = 1 << 64
# Maximum number of values in a list of a scenario or a sweep.
_MOST_VALUES = 100_000
# Maximum depth of nested tables and lists; no scenario needs as much.
_DEEPEST = 64


def number_of(value: object) -> int | float | Fraction:
    """Returns a number of any library as a Python number of the same value.

    Raises `TypeError` for values that are not numbers. Among these are text, booleans, and times such as `numpy.timedelta64`,
    because the number of a time depends on its unit.
    """
    if type(value) is int or type(value) is float:
        return value
    number: Any = _of_python(value)
    if isinstance(number, bool) or _kind(number) in ("b", "m", "M"):
        raise TypeError(f"not a number: {value!r}")
    if isinstance(number, Integral):
        return int(number)
    if isinstance(number, Decimal):
        return Fraction(number) if number.is_finite() else math.nan
    if isinstance(number, Rational):
        return Fraction(int(number.numerator), int(number.denominator))
    if isinstance(number, Real):
        return float(number)
    raise TypeError(f"not a number: {value!r}")


def is_one(value: object) -> bool:
    """Returns whether this is a single value (text, a number, or an array without dimensions) and not a collection of values."""
    is_flat = getattr(value, "ndim", None) == 0
    return is_flat or isinstance(value, str | bytes | PathLike) or not isinstance(value, Iterable)


def whole(name: str, value: object, least: int = 0, most: int = (1 << 32) - 1) -> int:
    """Returns an argument as an integer. Raises `Refused` if it is not an integer from `least` to `most`."""
    try:
        number = number_of(value)
    except TypeError as why:
        raise WrongType(f"{name} is {value!r}: give a whole number of at least {least}") from why
    if not least <= number <= most or number != int(number):
        raise Refused(f"{name} is {value!r}: give a whole number from {least} to {most}")
    return int(number)


def transfers_of(value: object) -> int | None:
    """Returns the argument `transfers` as an integer or None. Raises `Refused` if it is neither."""
    return None if value is None else whole("transfers", value, most=_MOST - 1)


def path_of(name: str, path: object) -> str:
    """Returns an argument that is a path, as text. Raises `Refused` if it is not a valid path."""
    try:
        text = fsdecode(path)  # type: ignore[arg-type]
    except TypeError as why:
        raise WrongType(f"{name} is {path!r}: give a path") from why
    if "\0" in text or not text:
        raise Refused(f"{name} is {path!r}: a path must not be empty or contain a zero byte")
    return text


def text_of(value: object) -> str:
    """Returns the text of one value as the command reads it after `KEY=`: a number, text, a boolean, a list or a table."""
    return _text_of(value, 0)


def _text_of(value: object, depth: int) -> str:
    value = plain(value, depth)
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and not _NOT_TEXT.fullmatch(value)
        return value if is_plain else quoted(value)
    return _inner(value)


def _inner(value: object) -> str:
    """Returns a plain value in the form that TOML has for it inside a list or a table."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return quoted(value)
        case dict():
            return f"{{ {', '.join(f'{quoted(key)} = {_inner(one)}' for key, one in value.items())} }}"
        case list():
            return f"[{', '.join(map(_inner, value))}]"
        case _:
            return repr(value)


def quoted(text: str) -> str:
    """Returns text as a TOML string. Raises `Refused` if it cannot be encoded as UTF-8.

    Characters beyond ASCII are not escaped, because TOML does not have the surrogate pairs with which JSON escapes them.
    """
    try:
        text.encode()
    except UnicodeEncodeError as why:
        raise Refused(f"{text!r} cannot be encoded as UTF-8, which a scenario requires") from why
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def settings(values: object) -> dict[str, str]:
    """Returns the text of each value by its dotted key. Nested tables may be given as mappings or by dots in the keys."""
    return {key: text_of(value) for key, value in _leaves("", _mapping("settings", values), 0)}


def axes(values: object) -> dict[str, str]:
    """Returns, for each key, the values that a sweep tries, as text of the form `VALUE,VALUE,...`."""
    return {_key(key): _listed(key, value) for key, value in _mapping("values", values).items()}


def seeds_of(seeds: object) -> str | None:
    """Returns seeds as a value of the option `--seeds`, or None. Accepts a number, text such as `1..5`, or a list of numbers."""
    if seeds is None or isinstance(seeds, str):
        return seeds
    if is_one(seeds):
        return str(whole("seeds", seeds, most=_MOST - 1))
    if not isinstance(seeds, Iterable):
        raise WrongType(f"seeds are {seeds!r}: give a number, a list, or text such as '1..5'")
    texts = [str(whole("a seed", seed, most=_MOST - 1)) for seed in _bounded("seeds", seeds)]
    if not texts:
        raise Refused("seeds are an empty list: give at least one, or leave them out")
    return ",".join(texts)


def _mapping(name: str, values: object) -> Mapping[Any, object]:
    if not isinstance(values, Mapping):
        raise WrongType(f"{name} are {values!r}: give a mapping, such as {{'workload.load': 0.5}}")
    return values


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise WrongType(f"{key!r} is not a key of a scenario: give text, such as 'workload.load'")
    if "=" in key:
        raise Refused(f"{key!r} is not a key of a scenario: give the value separately from the key")
    return quoted(key)[1:-1]


def _leaves(path: str, values: Mapping[Any, object], depth: int) -> Iterator[tuple[str, object]]:
    _check_depth(depth)
    for key, value in values.items():
        name = path + _key(key)
        if isinstance(value, Mapping) and value:
            yield from _leaves(f"{name}.", value, depth + 1)
        else:
            yield name, value


def _listed(key: str, value: object) -> str:
    if is_one(value) or isinstance(value, Mapping) or not isinstance(value, Iterable):
        return text_of(value)
    texts = [text_of(one) for one in _bounded(key, value)]
    if not texts:
        raise Refused(f"{key} has an empty list: give at least one value, or leave the key out")
    return ",".join(texts)


def plain(value: object, depth: int = 0) -> object:
    """Converts a value to Python's `str`, `bool`, `int`, `float`, `list` and `dict`, for example from NumPy numbers and arrays.

    Raises `Refused` if a scenario cannot have this value.
    """
    _check_depth(depth)
    value = _of_python(value)
    if isinstance(value, str | bool):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, PathLike):
        return plain(fspath(value))
    if isinstance(value, Mapping):
        return {_name(key): plain(one, depth + 1) for key, one in value.items() if one is not None}
    if isinstance(value, Iterable) and not (is_one(value) or isinstance(value, bytearray | memoryview)):
        return [plain(one, depth + 1) for one in _bounded("a list", value)]
    try:
        number = number_of(value)
    except TypeError as why:
        raise WrongType(f"{value!r} is not a value in a scenario: give text, a number or a list") from why
    return _number(value, number)


def _number(value: object, number: float | Fraction) -> int | float:
    """Returns a number that TOML and JSON can represent. A float with an integer value, such as 1e6, becomes an `int`."""
    if isinstance(number, float) and not math.isfinite(number):
        raise Refused(f"{value!r} is not a number in a scenario: it must be finite")
    if not -_MOST < number < _MOST:
        bits = int(number).bit_length()
        raise Refused(f"a number of a scenario has at most 64 bits, and this one {bits}")
    return int(number) if number == int(number) else float(number)


def _bounded(name: str, values: Iterable[object]) -> Iterator[object]:
    """Yields the values. Raises `Refused` if there are more than 100,000, so that an endless iterable is rejected."""
    for place, value in enumerate(values):
        if place == _MOST_VALUES:
            raise Refused(f"{name} has more than {_MOST_VALUES} values, or no end")
        yield value


def _name(key: object) -> str:
    if not isinstance(key, str):
        raise WrongType(f"{key!r} is not a key of a scenario: give text")
    return str(key)


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise Refused(f"lists and tables of a scenario are within each other at most {_DEEPEST} deep")


def _of_python(value: object) -> object:
    """Returns a scalar of another library (NumPy, Arrow, PyTorch) as a Python value, and any other value unchanged."""
    as_py = getattr(value, "as_py", None)
    if callable(as_py):
        return as_py()
    is_scalar = getattr(value, "ndim", None) == 0 and not isinstance(value, str)
    if is_scalar and _kind(value) not in ("m", "M"):
        item = getattr(value, "item", None)
        return item() if callable(item) else value
    return value


def _kind(value: object) -> object:
    """Returns NumPy's one-letter kind of a value's type (`b` for booleans, `m` and `M` for times), or None if it has none."""
    return getattr(getattr(value, "dtype", None), "kind", None)
