"""User-defined workloads: lists of messages whose times, sizes, sources and destinations come from any iterables."""

import itertools
import math
import operator
import os
from collections.abc import Callable, Iterable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from unrack.errors import Lacking, NotWritten, Refused, WrongType
from unrack.folders import Folder
from unrack.scenario import Scenario, scenario_of
from unrack.values import is_one, number_of, whole

Numbers = Iterable[int] | int
_KINDS = ("read", "write", "rmw", "flow")
_MOST_NODES = 1 << 32
_MOST_BYTES = 1 << 64
# Limit of simulated time: 2^63 ps, which is 106 days.
_END_PS = 1 << 63
_MOST_MESSAGES = 1 << 32
# Approximate bytes that a message takes as Python objects.
_BYTES_EACH = 200
_HINT = "make room there, or name another folder"


class Messages:
    """A list of messages, each with its start time, as an open-loop workload of a scenario.

    Each argument is either one value for all messages, or an iterable: a list, an array (NumPy, pandas, Arrow), or a generator.
    All arguments that have a length must have the same length. A generator may be endless: it is read only up to that length, or
    up to `count`.

    Args:
        src: Sending nodes, numbered from 0.
        dst: Receiving nodes, numbered from 0.
        bytes: Payload of each message, at least 1 byte; fractions of a byte are rounded up.
        start_ns: Start times in ns, in any order. Give either these or `gaps_ns`.
        gaps_ns: Start time of the first message, then the time from each message to the next, in ns. Gaps are added exactly,
            and the sums are rounded to picoseconds.
        kind: `read`, `write`, `rmw` or `flow`.
        count: Number of messages.

    Times may be numbers of any type. Example:

        rng = numpy.random.default_rng(7)
        Messages(src=itertools.cycle(range(4)), dst=4, bytes=rng.choice([64, 4096], 1000), gaps_ns=rng.exponential(500, 1000))

    Raises `Refused` if lengths differ, if no argument determines the number of messages, if there are no messages, or if a value
    is invalid. Raises `Lacking` if the messages do not fit into the machine's memory.
    """

    def __init__(
        self,
        *,
        src: Numbers,
        dst: Numbers,
        bytes: Numbers,
        start_ns: Iterable[float] | None = None,
        gaps_ns: Iterable[float] | float | None = None,
        kind: Iterable[str] | str = "write",
        count: int | None = None,
    ) -> None:
        if (start_ns is None) == (gaps_ns is None):
            raise Refused("give either start_ns or gaps_ns")
        times = {"gaps_ns": gaps_ns} if start_ns is None else {"start_ns": start_ns}
        given = {"src": src, "dst": dst, "bytes": bytes, **times, "kind": kind}
        columns = {name: _listed(column) for name, column in given.items()}
        number = _number(columns, count)
        _check_memory(number or 0)
        ended: list[str] = []
        read = [_read(name, column, ended) for name, column in columns.items()]
        self._rows: list[tuple[int, int, int, int, str]] = list(
            itertools.islice(zip(*read, strict=False), number)
        )
        if number is not None and len(self._rows) < number:
            raise Refused(f"{ended[0]} ends after {len(self._rows)} values, but there are {number} messages")
        if not self._rows:
            raise Refused("there are no messages")
        if any(later[3] < earlier[3] for earlier, later in itertools.pairwise(self._rows)):
            self._rows.sort(key=lambda row: row[3])
        self._folder: Folder | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the messages to a CSV file for the scenario key `workload.file`, and returns the path of the file.

        An existing file is replaced only after all messages are written. Raises `NotWritten` if the file cannot be written.
        """
        try:
            path = Path(fspath(path))
        except TypeError as why:
            raise WrongType(f"{path!r} is not a path") from why
        try:
            _write(path, self._lines())
        except ValueError as why:
            raise Refused(f"{str(path)!r} is not a path: {why}") from why
        except OSError as why:
            raise NotWritten.because(path, why, _HINT) from why
        return path

    def on(self, scenario: Scenario | str | PathLike[str]) -> Scenario:
        """Returns a copy of the scenario whose workload is these messages.

        The messages are stored in a temporary file, which exists as long as this object or the returned scenario exists. Raises
        `NotWritten` if the file cannot be written.
        """
        if self._folder is None:
            folder = Folder()
            self.save(folder.path / "messages.csv")
            self._folder = folder
        return scenario_of(scenario)._with_work(self._folder.path / "messages.csv", self._folder)

    def _lines(self) -> Iterator[str]:
        yield "src,dst,bytes,start_ns,kind\n"
        for src, dst, size, ps, kind in self._rows:
            yield f"{src},{dst},{size},{ps // 1000}.{ps % 1000:03},{kind}\n"


def _write(path: Path, lines: Iterable[str]) -> None:
    """Writes a temporary file next to `path` and renames it, so that a file of this name is always complete."""
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        # A pipe or a device must be written in place, not replaced.
        with path.open("w", encoding="ascii") as file:
            file.writelines(lines)
        return
    aside = path.with_name(f".{path.name[:200]}.{os.getpid()}-{id(lines):x}")
    try:
        with aside.open("x", encoding="ascii") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _listed(column: object) -> object:
    """Returns an array as a list of Python values, which are exact and fast to read, and any other column unchanged."""
    dtype = getattr(column, "dtype", None)
    if is_one(column) or getattr(dtype, "kind", None) in ("m", "M"):
        return column
    for name in ("tolist", "to_pylist", "to_list"):
        listed = getattr(column, name, None)
        if callable(listed):
            return listed()
    return column


def _number(columns: dict[str, object], count: object) -> int | None:
    """Returns the number of messages, or None if it depends on a column of unknown length, such as a generator."""
    lengths = {name: length for name, column in columns.items() if (length := _length(column)) is not None}
    shortest = min(lengths, key=lambda name: lengths[name], default="")
    if count is not None:
        number = whole("count", count, least=1, most=_MOST_MESSAGES)
        if lengths and lengths[shortest] < number:
            raise Refused(f"{shortest} has {lengths[shortest]} values, but count is {number}")
        return number
    longest = max(lengths, key=lambda name: lengths[name], default="")
    if lengths and lengths[shortest] != lengths[longest]:
        raise Refused(
            f"{shortest} has {lengths[shortest]} values, but {longest} has {lengths[longest]}: give as many of both, one value "
            "for all messages, or count"
        )
    if not lengths and all(map(_is_endless, columns.values())):
        raise Refused("the number of messages is not determined: give count")
    return lengths[shortest] if lengths else None


def _check_memory(number: int) -> None:
    """Raises `Lacking` if this number of messages does not fit into the machine's memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if number * _BYTES_EACH > memory:
        raise Lacking(
            f"{number} messages need about {number * _BYTES_EACH >> 30} GiB, and this machine has {memory >> 30} GiB: write them to a file, "
            "for workload.file"
        )


def _length(column: object) -> int | None:
    if is_one(column):
        return None
    hint = operator.length_hint(column, -1)
    return None if hint < 0 else hint


def _is_endless(column: object) -> bool:
    return is_one(column) or isinstance(column, itertools.cycle | itertools.count | itertools.repeat)


def _read(name: str, column: Any, ended: list[str]) -> Iterator[Any]:
    """Yields the checked values of a column. When the column ends, its name is appended to `ended`."""
    values = itertools.repeat(column) if is_one(column) else iter(column)
    if name == "gaps_ns":
        yield from _starts(values)
    else:
        yield from _checked(name, values)
    ended.append(name)


def _checked(name: str, values: Iterator[Any]) -> Iterator[Any]:
    read: Callable[[Any], Any] = {"src": _node, "dst": _node, "bytes": _size, "kind": _kind}.get(name, _start)
    for place, value in enumerate(values):
        try:
            yield read(value)
        except (TypeError, ValueError, OverflowError) as why:
            raise _wrong(place, name, value, why) from why


def _starts(gaps: Iterator[Any]) -> Iterator[int]:
    """Yields the running sums of gaps in whole picoseconds. Fractions are carried over, so that no rounding errors accumulate."""
    ps, rest = 0, 0.0
    for place, gap in enumerate(gaps):
        try:
            whole_ps, part = _picoseconds(gap)
        except (TypeError, ValueError, OverflowError) as why:
            raise _wrong(place, "gaps_ns", gap, why) from why
        carried = int(rest + part)
        ps, rest = ps + whole_ps + carried, rest + part - carried
        start = ps + round(rest)
        if start >= _END_PS:
            raise _wrong(place, "gaps_ns", gap, ValueError(_LATE))
        yield start


def _start(value: Any) -> int:
    ps, part = _picoseconds(value)
    start = ps + round(part)
    if start >= _END_PS:
        raise ValueError(_LATE)
    return start


def _picoseconds(value: Any) -> tuple[int, float]:
    """Converts a time in ns to whole picoseconds and the remaining fraction of a picosecond."""
    ps = number_of(value) * 1000
    if ps < 0:
        raise ValueError("times are at least 0")
    return int(ps), float(ps - int(ps))


def _node(value: Any) -> int:
    node = number_of(value)
    if node != int(node) or not 0 <= node < _MOST_NODES:
        raise ValueError("a node is a whole number from 0 on")
    return int(node)


def _size(value: Any) -> int:
    size = math.ceil(number_of(value))
    if not 1 <= size < _MOST_BYTES:
        raise ValueError("a message has at least 1 byte")
    return size


def _kind(value: Any) -> str:
    if not isinstance(value, str) or value not in _KINDS:
        raise ValueError(f"kinds are {', '.join(_KINDS)}")
    return str(value)


def _wrong(place: int, name: str, value: object, why: Exception) -> Refused:
    because = "" if isinstance(why, TypeError) else f": {why}"
    text = f"message {place} is invalid: its {name} is {value!r}{because}"
    return WrongType(text) if isinstance(why, TypeError) else Refused(text)


_LATE = "a run has at most 106 days; times are from its beginning, so subtract the first from all"
