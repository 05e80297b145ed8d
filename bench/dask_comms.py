"""Dask over a pool beside `tcp://`: `python bench/dask_comms.py [--most BYTES] [--pairs N]`. Needs UNRACK, or `unrack` in the path.

Two clusters of two workers are up at once, and do the same work in turns: each pair of runs gives a ratio, of which the median and the
quartiles are printed. Arrays are new for each run, so nothing is there yet where it is needed.
"""

import argparse
import contextlib
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dask.array as da
import dask.config
import numpy as np
from distributed import Client, LocalCluster, wait

PRELOAD = ["unrack.dask"]
TASKS = 200


def main() -> None:
    """Prints a table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--most", type=int, default=1 << 30, help="bytes of the largest array")
    arguments.add_argument("--pairs", type=int, default=9)
    asked = arguments.parse_args()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    print(processor())
    print("| | tcp, ms | unrack, ms | ratio: median (quartiles) |\n|---|---|---|---|")
    with pool(8 * asked.most) as path:
        setting = {
            "distributed.comm.unrack.pool": path,
            "distributed.worker.preload": PRELOAD,
            "distributed.nanny.preload": PRELOAD,
            # Each worker may hold what it makes and what it gets.
            "distributed.worker.memory.target": False,
            "distributed.worker.memory.spill": False,
            "distributed.worker.memory.pause": False,
            "distributed.worker.memory.terminate": False,
        }
        import unrack.dask  # noqa: F401 (registers the backend)

        with dask.config.set(setting), cluster("tcp") as tcp, cluster("unrack") as ours:
            row(f"task, 1 of {TASKS}", tasks, (tcp, ours), asked.pairs, TASKS)
            for size in (1 << power for power in (20, 23, 26, 28, 30)):
                if size > asked.most:
                    break
                pairs = max(3, asked.pairs if size < 1 << 28 else asked.pairs // 2)
                for name, work in (("move", move), ("transpose", transpose), ("shuffle", shuffle)):
                    row(
                        f"{name}, {size >> 20} MiB",
                        lambda client, work=work, size=size: work(client, size),
                        (tcp, ours),
                        pairs,
                    )


def row(
    name: str, work: Callable[[Client], float], clients: tuple[Client, Client], pairs: int, each: int = 1
) -> None:
    """Runs a pair of works in turns, the first alternating, and prints their ratio."""

    def run(client: Client) -> float:
        with client.as_current():
            return work(client)

    for client in clients:
        run(client)
    times: tuple[list[float], list[float]] = [], []
    for pair in range(pairs):
        for at in (0, 1) if pair % 2 else (1, 0):
            times[at].append(run(clients[at]))
    ratios = [ours / tcp for tcp, ours in zip(*times, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    tcp, ours = (1000 * statistics.median(one) / each for one in times)
    print(f"| {name} | {tcp:.2f} | {ours:.2f} | {middle:.2f} ({low:.2f} to {high:.2f}) |", flush=True)


def tasks(client: Client) -> float:
    """Small tasks, each submitted when the one before has its result."""
    start = time.perf_counter()
    for number in range(TASKS):
        client.submit(lambda number: number, number, pure=False).result()
    return time.perf_counter() - start


def move(client: Client, size: int) -> float:
    """One array from a worker to the other."""
    first, second = client.scheduler_info(n_workers=-1)["workers"]
    array = client.submit(np.ones, size // 8, workers=[first], pure=False)
    wait(array)
    start = time.perf_counter()
    client.submit(len, array, workers=[second], pure=False).result()
    return time.perf_counter() - start


def transpose(client: Client, size: int) -> float:
    """A matrix of 16 blocks, and its transpose added."""
    side = int((size / 8) ** 0.5) // 4 * 4
    matrix = client.persist(da.random.random((side, side), chunks=side // 4))
    wait(matrix)
    start = time.perf_counter()
    wait(client.persist(matrix + matrix.T))
    return time.perf_counter() - start


def shuffle(client: Client, size: int) -> float:
    """A matrix in 8 blocks of rows, cut into 8 blocks of columns."""
    side = int((size / 8) ** 0.5) // 8 * 8
    matrix = client.persist(da.random.random((side, side), chunks=(side // 8, side)))
    wait(matrix)
    start = time.perf_counter()
    wait(client.persist(matrix.rechunk((side, side // 8))))
    return time.perf_counter() - start


@contextlib.contextmanager
def cluster(protocol: str) -> Iterator[Client]:
    """A client of a cluster of two workers."""
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            protocol=protocol,
            dashboard_address=":0",
            memory_limit=None,
            silence_logs=logging.CRITICAL,
        ) as workers,
        Client(workers, set_as_default=False) as client,
    ):
        yield client


@contextlib.contextmanager
def pool(capacity: int) -> Iterator[str]:
    """A pool of its own."""
    with tempfile.TemporaryDirectory(prefix="unrack-bench-") as folder:
        path = str(Path(folder) / "pool")
        command = [os.environ.get("UNRACK", "unrack"), "pool", "serve", "--socket", path]
        manager = subprocess.Popen(
            [*command, "--capacity", f"{capacity >> 20}MiB"], stdout=subprocess.DEVNULL
        )
        try:
            while not Path(path).exists():
                if manager.poll() is not None:
                    sys.exit(manager.returncode or 1)
                time.sleep(0.01)
            yield path
        finally:
            manager.terminate()
            manager.wait()


def processor() -> str:
    """The machine, as `lscpu` names it."""
    listed = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout
    lines = dict(line.split(":", 1) for line in listed.splitlines() if ":" in line)
    return f"{lines['Model name'].strip()}, {lines['CPU(s)'].strip()} processors"


if __name__ == "__main__":
    main()
