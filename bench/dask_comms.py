"""Benchmark of Dask over a pool against `tcp://`: `python bench/dask_comms.py [--most BYTES] [--pairs N]`.

Two clusters of two workers run at the same time, and perform the same work in turn. Each pair of runs gives one ratio; the median and
the quartiles of the ratios are printed. Each run creates new arrays, so that no worker has the data already. The variable UNRACK names
the command; without it, `unrack` must be on the path.
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
    """Runs the benchmarks and prints a table."""
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
            # No memory limits, so that a worker can hold the arrays that it creates and those that it receives.
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
    """Runs the same work on both clusters in turn, alternating which is first, and prints the ratio of their times."""

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
    """Runs small tasks one after another, each submitted after the result of the previous one. Returns the seconds taken."""
    start = time.perf_counter()
    for number in range(TASKS):
        client.submit(lambda number: number, number, pure=False).result()
    return time.perf_counter() - start


def move(client: Client, size: int) -> float:
    """Moves one array from a worker to the other. Returns the seconds taken."""
    first, second = client.scheduler_info(n_workers=-1)["workers"]
    array = client.submit(np.ones, size // 8, workers=[first], pure=False)
    wait(array)
    start = time.perf_counter()
    client.submit(len, array, workers=[second], pure=False).result()
    return time.perf_counter() - start


def transpose(client: Client, size: int) -> float:
    """Adds a matrix of 16 blocks to its transpose. Returns the seconds taken."""
    side = int((size / 8) ** 0.5) // 4 * 4
    matrix = client.persist(da.random.random((side, side), chunks=side // 4))
    wait(matrix)
    start = time.perf_counter()
    wait(client.persist(matrix + matrix.T))
    return time.perf_counter() - start


def shuffle(client: Client, size: int) -> float:
    """Rechunks a matrix from 8 blocks of rows to 8 blocks of columns. Returns the seconds taken."""
    side = int((size / 8) ** 0.5) // 8 * 8
    matrix = client.persist(da.random.random((side, side), chunks=(side // 8, side)))
    wait(matrix)
    start = time.perf_counter()
    wait(client.persist(matrix.rechunk((side, side // 8))))
    return time.perf_counter() - start


@contextlib.contextmanager
def cluster(protocol: str) -> Iterator[Client]:
    """Starts a cluster of two workers, and yields a client of it."""
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
    """Serves a temporary pool, and yields the path of its socket."""
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
    """Returns the processor's name and the number of processors, as `lscpu` reports them."""
    listed = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout
    lines = dict(line.split(":", 1) for line in listed.splitlines() if ":" in line)
    return f"{lines['Model name'].strip()}, {lines['CPU(s)'].strip()} processors"


if __name__ == "__main__":
    main()
