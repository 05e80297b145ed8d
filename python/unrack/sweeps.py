"""Sweeps: simulations of a scenario over a grid of values."""

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

# Progress steps of the native code per point: see crates/sim/grid/src/watch.rs.
_STEPS = 1000


class Sweep:
    """Results of a sweep. `table` has one row for each point.

    Attributes:
        folder: Run folder of the sweep.
        summary: The JSON object that `unrack sweep --json` prints.
    """

    def __init__(self, summary: Mapping[str, Any], folder: Path, temporary: Folder | None) -> None:
        self._temporary = temporary
        self.summary = summary
        self.folder = folder
        self.table = Table.read(folder / "sweep.parquet")
        """Table with one row for each point.

        It has one column for each key that varies, then one for each figure (`slowdown_mean`, `slowdown_p99`, ...). Durations
        are in ns, rates in bps and sizes in bytes, with the unit at the end of the column's name.
        """

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
    """Simulates a scenario over a grid of values, with the same points, table and run folder as `unrack sweep`.

    Finished points are stored in the run folder, so the same call with the same `out` continues an interrupted sweep.

    Args:
        scenario: A `Scenario`, or the path of a scenario file.
        values: For each key, one value or a list of values, such as
            `{"workload.load": [0.3, 0.6], "fabric.protocol": ["edm", "cxl"]}`. They take precedence over values of the scenario.
        seeds: Seeds to run each point with: numbers, or text such as `"1..5"`.
        out: Run folder. None selects a temporary folder, which is removed together with the result.
        replace: Whether to replace an earlier sweep in `out`. If false, and the earlier sweep has points that are not in this
            grid, `Refused` is raised.
        threads: Number of points that run in parallel; by default the number of cores.
        client: A `distributed.Client`. If it is given, the workers of its Dask cluster run the points, with the same results.
        transfers: Maximum number of transfers to replay from a captured trace.
        progress: Whether to draw a progress bar. None draws it on a terminal and in a notebook.

    Raises the same exceptions as `simulate`; the text names the point.
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
    """Runs the command on the folder of finished points to write the table, and returns the summary that it prints.

    The command writes the table so that only one implementation of it exists.
    """
    arguments = ["sweep", *(f"--set={setting}" for setting in [*scenario._settings(), *lists])]
    arguments += [] if seeds is None else [f"--seeds={seeds}"]
    arguments += ["--replace"] if replace else []
    arguments += [] if transfers is None else [f"--transfers={transfers}"]
    file = "-" if scenario._path is None else str(scenario._path)
    if scenario._path is not None and file == "-":
        # A file named `-` needs its folder in the path, because a plain `-` means standard input.
        file = join(curdir, file)
    arguments += [f"--out={folder}", "--json", "--", file]
    printed, _ = execute(arguments, stdin=scenario._text, quiet=True)
    summary: Mapping[str, Any] = json.loads(printed)
    return summary
