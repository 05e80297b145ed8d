"""Messages of one's own: arrivals, sizes and pairs from any iterables, as the work of a scenario."""

import itertools
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from unrack.errors import Refused
from unrack.folders import Folder
from unrack.scenario import Scenario, scenario_of

Numbers = Iterable[int] | int
_KINDS = ("read", "write", "rmw", "flow")


class Messages:
    """A list of messages, each at its time: the work of a scenario, in open loop.

    Every argument is one value for all, or an iterable: a list, a NumPy array, or a generator without end, which is read as far
    as the others go, or `count` says.

    `src`, `dst`: nodes, from 0 on. `bytes`: payload. When: `start_ns`, times in order, or `gaps_ns`, times between one message and the
    next (numbers in ns, rounded to picoseconds). `kind`: `read`, `write`, `rmw` or `flow`.

        rng = numpy.random.default_rng(7)
        Messages(src=itertools.cycle(range(4)), dst=4, bytes=rng.choice([64, 4096], 1000), gaps_ns=rng.exponential(500, 1000))

    Raises `Refused` if nothing says how many there are, if there are none, or if one is wrong.
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
        when = gaps_ns if start_ns is None else start_ns
        columns = [src, dst, bytes, when, kind]
        if count is None and all(_is_endless(column) for column in columns):
            raise Refused("nothing says how many messages there are: give count")
        *numbers, times, kinds = (_each(column) for column in columns)
        if start_ns is None:
            times = itertools.accumulate(times)
        rows = itertools.islice(zip(*numbers, times, kinds, strict=False), count)
        self._rows = [_row(place, row) for place, row in enumerate(rows)]
        if not self._rows:
            raise Refused("there are no messages")
        if any(later[3] < earlier[3] for earlier, later in itertools.pairwise(self._rows)):
            self._rows.sort(key=lambda row: row[3])
        self._folder: Folder | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the list as CSV, which `workload.file` takes, and returns the path."""
        lines = [
            f"{src},{dst},{size},{ps // 1000}.{ps % 1000:03},{kind}\n"
            for src, dst, size, ps, kind in self._rows
        ]
        path = Path(path)
        path.write_text("src,dst,bytes,start_ns,kind\n" + "".join(lines), encoding="ascii")
        return path

    def on(self, scenario: Scenario | str | PathLike[str]) -> Scenario:
        """Returns a scenario with these messages as its work. They are in a temporary file, as long as this object lives."""
        if self._folder is None:
            self._folder = Folder()
            self.save(Path(self._folder.path, "messages.csv"))
        file = Path(self._folder.path, "messages.csv")
        return scenario_of(scenario).replace({"workload.kind": "trace", "workload.file": str(file)})


def _is_endless(column: object) -> bool:
    return isinstance(column, int | float | str | itertools.cycle | itertools.count | itertools.repeat)


def _each(column: object) -> Iterator[Any]:
    if isinstance(column, str) or not isinstance(column, Iterable):
        return itertools.repeat(column)
    return iter(column)


def _row(place: int, row: tuple[Any, ...]) -> tuple[int, int, int, int, str]:
    *numbers, at, kind = row
    try:
        src, dst, size = (int(number) for number in numbers)
        ps = round(float(at) * 1000)
    except (TypeError, ValueError, OverflowError) as why:
        raise Refused(f"message {place} is no message: {row}") from why
    if min(src, dst, size, ps) < 0 or kind not in _KINDS:
        raise Refused(f"message {place} is no message: {row}; kinds are {', '.join(_KINDS)}")
    return src, dst, size, ps, str(kind)
