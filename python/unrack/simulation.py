"""One scenario, simulated."""

import json
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from typing import Any

from unrack import _native
from unrack.errors import WrongType
from unrack.pictures import html_of_run, saved_pictures
from unrack.progress import shown
from unrack.scenario import Scenario, scenario_of
from unrack.tables import Table
from unrack.values import path_of, transfers_of, whole


class Simulation:
    """Results of one simulation."""

    def __init__(self, native: _native.Simulation, simulated: Scenario) -> None:
        self._native = native
        # It keeps the files that it names.
        self._simulated = simulated

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """Figures of the run, as `unrack sim --json` prints them: `slowdown` (over the same message alone), `completion_ns`,
        `throughput_gbps`, `queue_bytes`, `warnings` and more; `machine` has what differs from run to run."""
        figures: Mapping[str, Any] = json.loads(self._native.summary())
        return figures

    @cached_property
    def messages(self) -> Table:
        """Every message: `id`, `src`, `dst`, `kind`, `bytes`, `submitted_ps`, `completed_ps` (null if it did not finish),
        `unloaded_ps` (alone on the same fabric), `ideal_ps` (the least that these links allow), `slowdown` (over
        `unloaded_ps`), `retransmissions`, `drops`, `trims` (packets cut to their header)."""
        return Table(self._native.messages())

    @cached_property
    def ports(self) -> Table | None:
        """Links over time, each direction by itself, or None unless `links` was given: `from_ps`, `kind`, `number`,
        `busy_ps`, `utilization` (0 to 1), `packets`, `wire_bytes`, `payload_bytes`, `queue_mean_bytes`, `queue_max_bytes`."""
        native = self._native.ports()
        return None if native is None else Table(native)

    @property
    def scenario(self) -> Scenario:
        """The scenario in full, with every default."""
        scenario = Scenario.from_toml(self._native.scenario())
        scenario._folders = self._simulated._folders
        return scenario

    def save(self, folder: str | PathLike[str], *, replace: bool = False) -> None:
        """Writes the run folder that `unrack sim --out` writes. Raises `Refused` if another run is there, and `replace` is
        not given, and `NotWritten` if it cannot be written."""
        self._native.save(path_of("folder", folder), bool(replace))

    def __repr__(self) -> str:
        summary = self.summary
        return (
            f"<unrack.Simulation: {summary['fabric']}, {summary['completed']} of {summary['messages']} messages, "
            f"slowdown p99 {summary['slowdown']['p99']}>"
        )

    def _repr_html_(self) -> str:
        slowdown = self.summary["slowdown"]
        rows = {
            "fabric": self.summary["fabric"],
            "messages": f"{self.summary['completed']} of {self.summary['messages']} completed",
            "slowdown": f"mean {slowdown['mean']:.4g}, p99 {slowdown['p99']:.4g}"
            if slowdown["mean"]
            else "none",
            "throughput": f"{self.summary['throughput_gbps']:.4g} Gb/s",
        }
        return html_of_run(rows, saved_pictures(self.save))


def simulate(
    scenario: Scenario | str | PathLike[str],
    *,
    threads: int = 1,
    links: str | None = None,
    transfers: int | None = None,
    progress: bool | None = None,
) -> Simulation:
    """Simulates a scenario, as `unrack sim` does, without the interpreter lock. Ctrl-C ends it.

    `threads` splits the run by racks, with the same results. `links` is a time, such as `"10us"`, at whose interval links
    are sampled (`.ports`). `transfers` is the maximum of transfers to replay from a captured trace. `progress` draws a bar,
    by default where someone watches.

    Raises `Refused` for a scenario or an argument that cannot be used, `Lacking` if there is too little memory, and `Failed` if the
    run does not come to its end.
    """
    scenario = scenario_of(scenario)
    threads = whole("threads", threads)
    if links is not None and not isinstance(links, str):
        raise WrongType(f"links is {links!r}: give a time with its unit, such as '10us'")
    source = scenario._source(transfers_of(transfers))
    with shown("simulate", "message", progress) as show:
        return Simulation(source.simulate(threads, links, show), scenario)
