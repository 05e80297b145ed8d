"""A scenario over a grid of values."""

import json
from collections.abc import Iterable, Mapping
from os import PathLike, curdir
from os.path import join
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unrack.command import execute
from unrack.folders import Folder
from unrack.pictures import html_of_run, pictures_of
from unrack.progress import shown
from unrack.scenario import Scenario, scenario_of
from unrack.tables import Table
from unrack.values import axes, path_of, seeds_of, transfers_of, whole

if TYPE_CHECKING:
    import distributed

# Parts of a point, in which the native code counts: crates/sim/grid/src/watch.rs.
_STEPS = 1000


class Sweep:
    """Results of a sweep: one row for each point.

    `folder` has the run folder, `summary` the object that `unrack sweep --json` prints.
    """

    def __init__(self, summary: Mapping[str, Any], folder: Path, temporary: Folder | None) -> None:
        self._temporary = temporary
        self.summary = summary
        self.folder = folder
        self.table = Table.read(folder / "sweep.parquet")
        """One row for each point: a column for each key that varies (numbers as numbers, durations in ns, rates in bps, sizes
        in bytes, with the unit at the end of the name), then the figures: `slowdown_mean`, `slowdown_p99`, ..."""

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        return f"<unrack.Sweep: {len(self)} points over {', '.join(self.summary['keys'])}, in {self.folder}>"

    def _repr_html_(self) -> str:
        rows = {"points": len(self), "keys": ", ".join(self.summary["keys"])}
        return html_of_run(rows, pictures_of(self.folder))


def sweep(
    scenario: Scenario | str | PathLike[str],
    values: Mapping[str, object] | None = None,
    *,
    seeds: int | str | Iterable[int] | None = None,
    out: str | PathLike[str] | None = None,
    replace: bool = False,
    threads: int | None = None,
    client: "distributed.Client | None" = None,
    transfers: int | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Simulates a scenario over a grid of values, as `unrack sweep` does: the same points, table and folder.

    `values` has, for each key, one value or a list (`{"workload.load": [0.3, 0.6], "fabric.protocol": ["edm", "cxl"]}`); `seeds`
    are numbers or text such as `"1..5"`. Finished points are kept in `out` (by default a temporary folder, which goes with the
    result): the same call continues after an interruption. `threads` is the number of points run at once, by default that
    of all cores. With `client`, a `distributed.Client`, points run on the workers of its cluster, with the same results.

    A key that the sweep varies may have been set by `replace` before: the sweep's values hold. An earlier sweep in `out` with points
    that are not in this grid is refused, unless `replace` is given, as by the command.

    Raises as `simulate` does; the text names the point.
    """
    lists, seed_list = axes({} if values is None else values), seeds_of(seeds)
    transfers = transfers_of(transfers)
    threads = None if threads is None else whole("threads", threads, least=1)
    source = scenario_of(scenario)._without({*lists, *(["seed"] if seed_list is not None else [])})
    temporary = Folder() if out is None else None
    folder = temporary.path / "sweep" if temporary is not None else Path(path_of("out", out))
    varied = [f"{key}={texts}" for key, texts in lists.items()]
    grid = source._source(transfers).grid(varied, seed_list)
    points = Path(grid.folder(folder, bool(replace)))
    if client is None:
        with shown("sweep", "point", progress, _STEPS) as show:
            grid.run(points, threads, show)
    else:
        from unrack.cluster import run_points

        run_points(client, grid, points, transfers=transfers, progress=progress)
    return Sweep(_table(source, varied, seed_list, folder, replace, transfers), folder, temporary)


def _table(
    scenario: Scenario,
    lists: list[str],
    seeds: str | None,
    folder: Path,
    replace: bool,
    transfers: int | None,
) -> Mapping[str, Any]:
    """Has the command make the table of points that are all kept, by which there is one code that makes it."""
    arguments = ["sweep", *(f"--set={setting}" for setting in [*scenario._settings(), *lists])]
    arguments += [] if seeds is None else [f"--seeds={seeds}"]
    arguments += ["--replace"] if replace else []
    arguments += [] if transfers is None else [f"--transfers={transfers}"]
    file = "-" if scenario._path is None else str(scenario._path)
    if scenario._path is not None and file == "-":
        # This file is not standard input.
        file = join(curdir, file)
    arguments += [f"--out={folder}", "--json", "--", file]
    printed, _ = execute(arguments, stdin=scenario._text, quiet=True)
    summary: Mapping[str, Any] = json.loads(printed)
    return summary
