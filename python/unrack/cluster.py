"""Sweeps on a cluster of Dask (`distributed`): each point is a task, whose result is what a sweep's folder keeps.

The command starts this module for `unrack sweep --cluster`:

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
# Times that a point is given to the cluster again, when files that it needs went with a worker.
_ATTEMPTS = 5


def run_points(
    client: distributed.Client,
    grid: _native.Grid,
    folder: Path,
    *,
    transfers: int | None = None,
    progress: bool | None = None,
) -> None:
    """Runs the points that `folder` lacks on the cluster, and keeps each as soon as it is done.

    A point whose worker dies runs again elsewhere. Files that the scenario names are sent along. Raises the first error of a
    point, and `Lacking` if a worker has another build of Unrack.
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
                    # Results that are kept need no memory on the cluster.
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
    """Contents of files that scenarios name, on the cluster: each is sent once."""

    def __init__(self, client: distributed.Client) -> None:
        self._client = client
        self._sent: dict[str, distributed.Future[Any]] = {}

    def send(self, path: str) -> distributed.Future[Any]:
        """Returns the contents as the cluster has them."""
        if path not in self._sent:
            sent: Any = self._client.scatter([Path(path).read_bytes()], broadcast=True)
            self._sent[path] = sent[0]
        return self._sent[path]

    def forget(self) -> None:
        """Forgets what was sent: the worker that had it is gone."""
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
    """Simulates one point, on a worker. Returns its figures as JSON (`figures`), or what went wrong (`error`, `class`).

    `keys` are those of files that the scenario names, `contents` what these hold; `sources` is the hash of the build that asks.
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
    """Runs the points of a sweep that `unrack` asks for. Returns the exit status."""
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
    """Has the kernel end this process with the command that started it, which names itself as it is named by this package."""
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
