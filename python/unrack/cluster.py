"""Runs sweeps on a Dask cluster (`distributed`): each point is one task, which returns the figures that the sweep's folder stores.

`unrack sweep --cluster` starts this module:

    python3 -m unrack.cluster tcp://HOST:PORT SCENARIO POINTS [--set KEY=VALUES]... [--seeds SEEDS] [--transfers N]
"""

import argparse
import ctypes
import hashlib
import json
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import distributed

from unrack import _native
from unrack.command import PARENT
from unrack.errors import Error, Failed, Lacking, Refused
from unrack.folders import Folder
from unrack.progress import shown
from unrack.values import quoted

_PR_SET_PDEATHSIG = 1
# Maximum attempts for a point. A point is submitted again if a file that it needs was lost together with a worker.
_ATTEMPTS = 5


def run_points(
    client: distributed.Client,
    grid: _native.Grid,
    folder: Path,
    *,
    transfers: int | None = None,
    progress: bool | None = None,
) -> None:
    """Runs the points that are missing in `folder` on the cluster, and stores the figures of each point as soon as it finishes.

    If a worker dies, another worker runs its point again. Files that the scenario names are sent to the workers. Raises the
    first error of a point, and `Lacking` if a worker has a different build of Unrack.
    """
    missing = grid.missing(folder)
    with shown("sweep", "point", progress) as show:
        files = _Files(client)
        running = {_submitted(client, grid, index, files, transfers): index for index in missing}
        attempts = dict.fromkeys(missing, 1)
        try:
            done = 0
            futures = distributed.as_completed(running)
            for future in futures:
                index = running[future]
                if future.status == "finished":
                    grid.keep(folder, index, _figures(future.result()))
                    # The result is in the folder now, so the cluster can free its memory.
                    future.release()
                    done += 1
                elif future.status in ("lost", "cancelled") and attempts[index] < _ATTEMPTS:
                    attempts[index] += 1
                    files.forget()
                    again = _submitted(client, grid, index, files, transfers)
                    running[again] = index
                    futures.add(again)
                else:
                    raise _error(future, index, grid)
                if show is not None:
                    show(done, len(missing))
        finally:
            client.cancel([future for future in running if not future.done()])


class _Files:
    """Files that scenarios name, as copies in the cluster's memory. Each file is sent to the cluster only once."""

    def __init__(self, client: distributed.Client) -> None:
        self._client = client
        self._sent: dict[str, distributed.Future[Any]] = {}

    def send(self, path: str) -> distributed.Future[Any]:
        """Sends a file to the cluster, unless it was sent before, and returns the future of its contents."""
        if path not in self._sent:
            sent: Any = self._client.scatter([Path(path).read_bytes()], broadcast=True)
            self._sent[path] = sent[0]
        return self._sent[path]

    def forget(self) -> None:
        """Forgets all sent files, because the worker that stored them is gone. Later uses send the files again."""
        self._sent.clear()


def _submitted(
    client: distributed.Client, grid: _native.Grid, index: int, files: _Files, transfers: int | None
) -> distributed.Future[Any]:
    scenario, named = grid.scenario(index)
    sources = json.loads(_native.build())["sources"]
    keys = [key for key, _ in named]
    contents = [files.send(path) for _, path in named]
    digest = hashlib.sha256(f"{scenario}{transfers}{sources}".encode()).hexdigest()[:16]
    return client.submit(
        point,
        scenario,
        keys,
        contents,
        transfers,
        sources,
        key=f"unrack-point-{digest}-{index}",
        pure=True,
    )


def point(
    scenario: str, keys: list[str], contents: list[bytes], transfers: int | None, sources: str
) -> dict[str, str]:
    """Simulates one point; runs on a worker. Returns the point's figures as JSON (`figures`), or its error (`error`, `class`).

    Args:
        scenario: Text of the scenario.
        keys: Keys of the scenario whose values name files.
        contents: Contents of those files, in the order of `keys`.
        transfers: Maximum of transfers to replay from a captured trace, or None.
        sources: Hash of the build that submitted the point. A worker with another build returns an error.
    """
    own = json.loads(_native.build())["sources"]
    if own != sources:
        text = (
            f"this worker has another build of unrack (sources {own}, not {sources}): install the same on all"
        )
        return {"error": text, "class": "Lacking"}
    with Folder() as folder:
        settings = []
        for number, (key, content) in enumerate(zip(keys, contents, strict=True)):
            path = folder.path / str(number)
            path.write_bytes(content)
            settings.append(f"{key}={quoted(str(path))}")
        try:
            return {"figures": _native.Source(text=scenario, transfers=transfers).point(settings)}
        except Error as error:
            return {"error": str(error), "class": type(error).__name__}


_CLASSES: Mapping[str, type[Error]] = {"Refused": Refused, "Failed": Failed, "Lacking": Lacking}


def _figures(found: dict[str, str]) -> str:
    if "error" in found:
        raise _CLASSES[found["class"]](found["error"])
    return found["figures"]


def _error(future: distributed.Future[Any], index: int, grid: _native.Grid) -> Error:
    why = future.exception() if future.status == "error" else future.status
    return Failed(f"at {' '.join(grid.set(index))}: the cluster did not run this point: {why}")


def main(arguments: Iterable[str]) -> int:
    """Runs the points of a sweep, as the command `unrack` requests them in `arguments`. Returns the exit status."""
    _end_with_parent()
    parser = argparse.ArgumentParser(prog="python3 -m unrack.cluster", description=__doc__)
    parser.add_argument("scheduler")
    parser.add_argument("scenario", help="a file, or - for the text on standard input")
    parser.add_argument("points", type=Path)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--seeds")
    parser.add_argument("--transfers", type=int)
    asked = parser.parse_args(list(arguments))
    try:
        if asked.scenario == "-":
            source = _native.Source(text=sys.stdin.read(), name="-", transfers=asked.transfers)
        else:
            source = _native.Source(asked.scenario, transfers=asked.transfers)
        grid = source.grid(asked.set, asked.seeds)
        with _connected(asked.scheduler) as client:
            run_points(client, grid, asked.points, transfers=asked.transfers)
    except Error as error:
        print(error, file=sys.stderr)
        return {Refused: 2, Lacking: 3}.get(type(error), 1)
    return 0


def _end_with_parent() -> None:
    """Asks the kernel to end this process when the command that started it ends.

    The command passes its process number in the variable `UNRACK_PARENT`, by which this package also identifies itself to the
    command.
    """
    if os.environ.get(PARENT) == str(os.getppid()):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.environ[PARENT] != str(os.getppid()):
            sys.exit(128 + signal.SIGTERM)


def _connected(scheduler: str) -> distributed.Client:
    try:
        return distributed.Client(scheduler, timeout=10)
    except (OSError, ValueError) as why:
        raise Lacking(f"no scheduler of Dask answers at {scheduler}: {why}") from why


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
