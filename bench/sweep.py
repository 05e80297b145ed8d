"""Times a sweep of 60 points in one process, on four Dask workers, and on four Dask workers of which one is killed.

Also checks that the three tables are equal. Usage: PYTHONPATH=python bench/sweep.py [MESSAGES]
"""

import os
import pathlib
import signal
import sys
import tempfile
import threading
import time

import distributed
import unrack

MESSAGES = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
VALUES = {"workload.load": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "fabric.protocol": ["edm", "cxl"]}
SCENARIO = unrack.Scenario(
    network={"topology": {"kind": "star", "nodes": 16}},
    workload={"kind": "memory", "size": "64B", "messages": MESSAGES},
    fabric={"protocol": "edm"},
)


def table(folder: pathlib.Path) -> bytes:
    """Returns the contents of the summary and the table in a sweep's folder."""
    return (folder / "sweep.json").read_bytes() + (folder / "sweep.parquet").read_bytes()


def kill_one(client: distributed.Client, points: pathlib.Path) -> None:
    """Waits until a third of the points are done, then kills a busy worker."""
    while len(list(points.glob("*.json"))) < 20:
        time.sleep(0.01)
    busy = [worker for worker, tasks in client.processing().items() if tasks]
    client.run(lambda: os.kill(os.getpid(), signal.SIGKILL), workers=busy[:1], on_error="ignore")


def main() -> int:
    """Runs the sweep in the three ways and prints their times. Returns 1 if the tables differ, otherwise 0."""
    with tempfile.TemporaryDirectory() as above:
        folders = [pathlib.Path(above, name) for name in ("one", "four", "killed")]
        times = []

        def swept(folder: pathlib.Path, client: distributed.Client | None) -> None:
            begin = time.monotonic()
            threads = 1 if client is None else None
            unrack.sweep(
                SCENARIO,
                VALUES,
                seeds=range(1, 6),
                out=folder,
                client=client,
                threads=threads,
                progress=False,
            )
            times.append(time.monotonic() - begin)

        swept(folders[0], None)
        with (
            distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            swept(folders[1], client)
            killer = threading.Thread(target=kill_one, args=(client, folders[2] / "points"))
            killer.start()
            swept(folders[2], client)
            killer.join()
        same = len({table(folder) for folder in folders}) == 1
    names = ("one process, one thread", "four workers", "four, one killed")
    for name, seconds in zip(names, times, strict=True):
        print(f"{name:<26} {seconds:6.1f} s  {times[0] / seconds:5.2f}")
    print(f"tables of {os.cpu_count()} cores: {'the same, byte for byte' if same else 'they differ'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
