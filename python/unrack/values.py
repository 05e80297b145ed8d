"""Values of scenarios and arguments, as the command reads them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real

# Text that no reader of TOML takes for anything else, and that no list of values splits.
_PLAIN = re.compile(r"[A-Za-z0-9_.%+-]*[A-Za-z%][A-Za-z0-9_.%+-]*")
_NOT_TEXT = re.compile(
    r"[+-]?(inf|nan)|true|false|[+-]?[0-9._]+[eE][+-]?[0-9]+|0[xob][0-9A-Fa-f_]+|[0-9-]+[Tt:].*"
)


def text_of(value: object) -> str:
    """Returns one value as the command reads it after `KEY=`: a number, text, a truth value, or a list of these."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return repr(float(value))
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and not _NOT_TEXT.fullmatch(value)
        return value if is_plain else json.dumps(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{json.dumps(str(key))} = {_quoted(one)}" for key, one in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, Iterable):
        return f"[{', '.join(_quoted(one) for one in value)}]"
    raise TypeError(f"no value of a scenario: {value!r}")


def _quoted(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else text_of(value)


def settings(values: Mapping[str, object]) -> list[str]:
    """Returns `KEY=VALUE` for each value. Tables within may be written as mappings or by dots in their keys."""
    return [f"{key}={text_of(value)}" for key, value in _leaves("", values)]


def axes(values: Mapping[str, object]) -> list[str]:
    """Returns `KEY=VALUE,VALUE,...` for each value: a list has the values that a sweep tries."""
    return [f"{key}={_listed(value)}" for key, value in values.items()]


def seeds_of(seeds: int | str | Iterable[int] | None) -> str | None:
    """Returns seeds as `--seeds` takes them: a number, `1..5`, or a list."""
    if seeds is None or isinstance(seeds, str):
        return seeds
    if isinstance(seeds, int):
        return str(seeds)
    return ",".join(str(int(seed)) for seed in seeds)


def _leaves(path: str, values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(f"{path}{key}.", value)
        else:
            yield f"{path}{key}", value


def _listed(value: object) -> str:
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return ",".join(text_of(one) for one in value)
    return text_of(value)


def plain(value: object) -> object:
    """Returns a value that JSON has: sequences and numbers of other libraries (NumPy) become lists and numbers."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items() if one is not None}
    if isinstance(value, Sequence | Iterable):
        return [plain(one) for one in value]
    raise TypeError(f"no value of a scenario: {value!r}")
