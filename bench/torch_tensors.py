"""Benchmark of tensors between two ranks over a pool, against gloo and TensorPipe: `make torch-bench`.

Both ranks create all process groups first and use them in turn. Each turn gives one ratio to gloo; the median and the quartiles of the
ratios are printed. The first part measures the quantity of HydraRPC's Table 2: the time to pass a tensor from one process to another,
which is half of a round trip, with the percentiles of that table (the paper does not state the tensor's size). The second part measures
collectives. The variable UNRACK names the command; without it, `unrack` must be on the path.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist
import unrack.torch  # noqa: F401 (registers the backend)
from torch.distributed import rpc

RANKS = 2
TURNS = 15
SIZES = [64, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
COLLECTIVES = [4 << 10, 1 << 20, 25 << 20, 100 << 20]

Times = dict[str, list[list[float]]]


def returned(tensor: torch.Tensor) -> torch.Tensor:
    """Returns its argument; called remotely over TensorPipe."""
    return tensor


def rank_of_bench(rank: int, folder: str) -> None:
    """Runs all measurements as one of the two ranks. Rank 0 prints the results."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS, init_method=f"file://{folder}/store")
    groups = {"gloo": dist.new_group(), "unrack": dist.new_group(backend="unrack")}
    rows: list[tuple[str, Times]] = []
    for size in SIZES:
        rows.append((f"tensor of {text(size)}", turns(groups, tensors(rank, size), repeats(size))))
    by_pipe = {transport: piped(rank, transport, folder) for transport in ("uv", "shm")}
    for (_, times), *piped_times in zip(rows, *by_pipe.values(), strict=False):
        times |= dict(zip(by_pipe, piped_times, strict=True))
    for size in COLLECTIVES:
        for name, work in (("all-reduce", all_reduce), ("all-gather", all_gather)):
            rows.append((f"{name} of {text(size)}", turns(groups, work(size), max(1, repeats(size) // 2))))
    if rank == 0:
        printed(rows)
    dist.barrier()
    dist.destroy_process_group()


def turns(
    groups: dict[str, dist.ProcessGroup], work: Callable[[dist.ProcessGroup], float], count: int
) -> Times:
    """Runs the work `count` times per turn on each group. Returns the microseconds of each run, by group and turn.

    The first turn warms up and is not counted.
    """
    times: Times = {name: [] for name in groups}
    for turn in range(TURNS + 1):
        for name in sorted(groups, reverse=bool(turn % 2)):
            dist.barrier()
            runs = [work(groups[name]) for _ in range(count)]
            if turn:
                times[name].append(runs)
    return times


def tensors(rank: int, size: int) -> Callable[[dist.ProcessGroup], float]:
    """Returns a function that sends a tensor to the other rank and back, and returns half of the time in microseconds."""
    tensor = torch.ones(size, dtype=torch.uint8)

    def there_and_back(group: dist.ProcessGroup) -> float:
        start = time.perf_counter()
        if rank == 0:
            dist.send(tensor, 1, group=group)
            dist.recv(tensor, 1, group=group)
        else:
            dist.recv(tensor, 0, group=group)
            dist.send(tensor, 0, group=group)
        return (time.perf_counter() - start) / 2 * 1e6

    return there_and_back


def all_reduce(size: int) -> Callable[[dist.ProcessGroup], float]:
    """Returns a function that sums `size` bytes of floats over all ranks, and returns the microseconds taken."""
    tensor = torch.zeros(size // 4)
    return lambda group: timed(lambda: dist.all_reduce(tensor, group=group))


def all_gather(size: int) -> Callable[[dist.ProcessGroup], float]:
    """Returns a function that collects the tensors of all ranks on every rank, and returns the microseconds taken."""
    tensor = torch.zeros(size // 4)
    outputs = [torch.empty_like(tensor) for _ in range(RANKS)]
    return lambda group: timed(lambda: dist.all_gather(outputs, tensor, group=group))


def timed(run: Callable[[], object]) -> float:
    """Calls the function, and returns the microseconds that it takes."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e6


def piped(rank: int, transport: str, folder: str) -> list[list[list[float]]]:
    """Measures TensorPipe: half of the time of a call that returns its tensor, in microseconds, by size and turn.

    Only rank 0 measures; the other rank returns an empty list.
    """
    options = rpc.TensorPipeRpcBackendOptions(
        init_method=f"file://{folder}/{transport}", _transports=[transport], _channels=["basic"]
    )
    rpc.init_rpc(f"rank{rank}", rank=rank, world_size=RANKS, rpc_backend_options=options)
    times: list[list[list[float]]] = []
    if rank == 0:
        for size in SIZES:
            tensor = torch.ones(size, dtype=torch.uint8)
            call = lambda tensor=tensor: rpc.rpc_sync("rank1", returned, (tensor,))
            call()
            times.append([[timed(call) / 2 for _ in range(repeats(size))] for _ in range(TURNS)])
    rpc.shutdown()
    return times


def repeats(size: int) -> int:
    """Returns the number of runs in a turn, which decreases with the size."""
    return max(2, min(100, (32 << 20) // size))


def printed(rows: list[tuple[str, Times]]) -> None:
    """Prints one line for each measurement and group."""
    print(processor())
    print("| us | | average | P90 | P95 | ratio to gloo: median (quartiles) |\n|---|---|---|---|---|---|")
    for what, times in rows:
        for name, every in times.items():
            runs = sorted(run for turn in every for run in turn)
            average, high, higher = (
                statistics.mean(runs),
                *(runs[int(len(runs) * part)] for part in (0.9, 0.95)),
            )
            ratio = "1"
            if name != "gloo":
                pairs = zip(every, times["gloo"], strict=True)
                ratios = [statistics.median(ours) / statistics.median(gloo) for ours, gloo in pairs]
                low, middle, top = statistics.quantiles(ratios, n=4, method="inclusive")
                ratio = f"{middle:.2f} ({low:.2f} to {top:.2f})"
            shown = {"uv": "TensorPipe, uv", "shm": "TensorPipe, shm"}.get(name, name)
            print(f"| {what} | {shown} | {average:.0f} | {high:.0f} | {higher:.0f} | {ratio} |")


def text(size: int) -> str:
    """Returns a size as text with a unit, such as `4 KiB`."""
    for unit, name in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << unit:
            return f"{size >> unit} {name}"
    return f"{size} B"


def processor() -> str:
    """Returns the processor's name and number, as `lscpu` reports them, and PyTorch's version."""
    listed = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout
    lines = dict(line.split(":", 1) for line in listed.splitlines() if ":" in line)
    return f"{lines['Model name'].strip()}, {lines['CPU(s)'].strip()} processors; PyTorch {torch.__version__}"


@contextlib.contextmanager
def pool(folder: str) -> Iterator[str]:
    """Serves a temporary pool, and yields the path of its socket."""
    path = str(Path(folder) / "pool")
    command = [os.environ.get("UNRACK", "unrack"), "pool", "serve", "--socket", path, "--capacity", "4GiB"]
    manager = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not Path(path).exists():
            if manager.poll() is not None:
                sys.exit("torch_tensors.py: the pool cannot be served")
            time.sleep(0.01)
        yield path
    finally:
        manager.terminate()
        manager.wait()


def main() -> int:
    """Starts a process for each rank and returns the larger exit status. With arguments, runs as one of these processes."""
    if len(sys.argv) > 1:
        rank_of_bench(int(sys.argv[1]), sys.argv[2])
        return 0
    with tempfile.TemporaryDirectory(prefix="unrack-bench-") as folder, pool(folder) as path:
        environment = os.environ | {"UNRACK_POOL": path, "OMP_NUM_THREADS": "1"}
        ranks = [
            subprocess.Popen([sys.executable, __file__, str(rank), folder], env=environment)
            for rank in range(RANKS)
        ]
        return max(rank.wait() for rank in ranks)


if __name__ == "__main__":
    sys.exit(main())
