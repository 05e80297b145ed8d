"""Values of scenarios and arguments, as the command reads them."""

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

# Text that no reader of TOML takes for anything else, and that no list of values splits.
_PLAIN = re.compile(r"[A-Za-z0-9_.%+-]*[A-Za-z%][A-Za-z0-9_.%+-]*")
_NOT_TEXT = re.compile(
    r"[+-]?(inf|nan)|true|false|[+-]?[0-9._]+[eE][+-]?[0-9]+|0[xob][0-9A-Fa-f_]+|[0-9-]+[Tt:].*"
)
# Larger than any number of a scenario, and short enough to be written.
_MOST = 1 << 64
# More values than a list of a scenario or a sweep has.
_MOST_VALUES = 100_000
# Deeper than any table of a scenario.
_DEEPEST = 64


def number_of(value: object) -> int | float | Fraction:
    """Returns a number of any library as one of Python's that has the same value.

    Raises `TypeError` for what is no number: text, truth values, and times, whose number depends on their unit.
    """
    if type(value) is int or type(value) is float:
        return value
    number: Any = _of_python(value)
    if isinstance(number, bool) or _kind(number) in ("b", "m", "M"):
        raise TypeError(f"no number: {value!r}")
    if isinstance(number, Integral):
        return int(number)
    if isinstance(number, Decimal):
        return Fraction(number) if number.is_finite() else math.nan
    if isinstance(number, Rational):
        return Fraction(int(number.numerator), int(number.denominator))
    if isinstance(number, Real):
        return float(number)
    raise TypeError(f"no number: {value!r}")


def is_one(value: object) -> bool:
    """Returns whether this is one value, and not several: text, a number, or an array without dimensions."""
    is_flat = getattr(value, "ndim", None) == 0
    return is_flat or isinstance(value, str | bytes | PathLike) or not isinstance(value, Iterable)


def whole(name: str, value: object, least: int = 0, most: int = (1 << 32) - 1) -> int:
    """Returns an argument that is a whole number. Raises `Refused` if it is outside of these bounds, or none."""
    try:
        number = number_of(value)
    except TypeError as why:
        raise WrongType(f"{name} is {value!r}: give a whole number of at least {least}") from why
    if not least <= number <= most or number != int(number):
        raise Refused(f"{name} is {value!r}: give a whole number from {least} to {most}")
    return int(number)


def transfers_of(value: object) -> int | None:
    """Returns the argument `transfers`, which is left out or a whole number."""
    return None if value is None else whole("transfers", value, most=_MOST - 1)


def path_of(name: str, path: object) -> str:
    """Returns an argument that is a path. Raises `Refused` if it cannot be one."""
    try:
        text = fsdecode(path)  # type: ignore[arg-type]
    except TypeError as why:
        raise WrongType(f"{name} is {path!r}: give a path") from why
    if "\0" in text or not text:
        raise Refused(f"{name} is {path!r}: no path is empty or has a zero byte")
    return text


def text_of(value: object) -> str:
    """Returns one value as the command reads it after `KEY=`: a number, text, a truth value, or a list of these."""
    return _text_of(value, 0)


def _text_of(value: object, depth: int) -> str:
    value = plain(value, depth)
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and not _NOT_TEXT.fullmatch(value)
        return value if is_plain else quoted(value)
    return _inner(value)


def _inner(value: object) -> str:
    """Returns a plain value as TOML writes it inside of a list or a table."""
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
    """Returns text as a string of TOML. It is UTF-8 there: pairs of surrogates, by which JSON escapes, are none of TOML."""
    try:
        text.encode()
    except UnicodeEncodeError as why:
        raise Refused(f"{text!r} is no text that UTF-8 can hold, as a scenario does") from why
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def settings(values: object) -> dict[str, str]:
    """Returns each value by its key, as text. Tables within may be written as mappings or by dots in their keys."""
    return {key: text_of(value) for key, value in _leaves("", _mapping("settings", values), 0)}


def axes(values: object) -> dict[str, str]:
    """Returns `VALUE,VALUE,...` by its key: a list has the values that a sweep tries."""
    return {_key(key): _listed(key, value) for key, value in _mapping("values", values).items()}


def seeds_of(seeds: object) -> str | None:
    """Returns seeds as `--seeds` takes them: a number, `1..5`, or a list."""
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
        raise WrongType(f"{key!r} is no key of a scenario: give text, such as 'workload.load'")
    if "=" in key:
        raise Refused(f"{key!r} is no key of a scenario: a value is given beside its key")
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
    """Returns a value of `str`, `bool`, `int`, `float`, `list` and `dict`: numbers and arrays of other libraries become these.

    Raises `Refused` for what no scenario holds.
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
        raise WrongType(f"{value!r} is no value of a scenario: give text, a number or a list") from why
    return _number(value, number)


def _number(value: object, number: float | Fraction) -> int | float:
    """Returns a number that both TOML and JSON have. A float that is whole, such as 1e6, is a whole number."""
    if isinstance(number, float) and not math.isfinite(number):
        raise Refused(f"{value!r} is no number of a scenario: it has to be finite")
    if not -_MOST < number < _MOST:
        bits = int(number).bit_length()
        raise Refused(f"a number of a scenario has at most 64 bits, and this one {bits}")
    return int(number) if number == int(number) else float(number)


def _bounded(name: str, values: Iterable[object]) -> Iterator[object]:
    """Returns the values, and raises `Refused` if they have no end."""
    for place, value in enumerate(values):
        if place == _MOST_VALUES:
            raise Refused(f"{name} has more than {_MOST_VALUES} values, or no end")
        yield value


def _name(key: object) -> str:
    if not isinstance(key, str):
        raise WrongType(f"{key!r} is no key of a scenario: give text")
    return str(key)


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise Refused(f"lists and tables of a scenario are within each other at most {_DEEPEST} deep")


def _of_python(value: object) -> object:
    """Returns Python's own value for a scalar of another library (NumPy, Arrow, PyTorch), and any other value as it is."""
    as_py = getattr(value, "as_py", None)
    if callable(as_py):
        return as_py()
    is_scalar = getattr(value, "ndim", None) == 0 and not isinstance(value, str)
    if is_scalar and _kind(value) not in ("m", "M"):
        item = getattr(value, "item", None)
        return item() if callable(item) else value
    return value


def _kind(value: object) -> object:
    """Returns the kind of a value's type as NumPy names it: `b` truth values, `m` and `M` times."""
    return getattr(getattr(value, "dtype", None), "kind", None)
