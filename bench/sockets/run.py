"""Runs the jobs of `bench/sockets.sh`: each program over the kernel's sockets and over sockets by reference, in turn."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import pwd
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
UNRACK = os.environ["UNRACK"]
FOLDER = Path()
# Ways to connect: TCP of the kernel, Unix sockets of the kernel, and TCP by reference.
WAYS = ("tcp", "unix", "reference")

Figures = dict[str, float]


def wrapped(way: str, command: list[str]) -> list[str]:
    """Returns the command for one way of connecting: below `unrack sockets` for `reference`, otherwise unchanged."""
    if way != "reference":
        return command
    return [UNRACK, "sockets", "--socket", str(FOLDER / "sockets.sock"), "--", *command]


def run(way: str, command: list[str], timeout: float = 120) -> str:
    """Runs a command with one way of connecting, and returns its standard output."""
    done = subprocess.run(
        wrapped(way, command), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=timeout, check=True
    )
    return done.stdout.decode()


@contextlib.contextmanager
def served(way: str, command: list[str], **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a server during a `with` block, and ends it and its process group afterwards."""
    process = subprocess.Popen(
        wrapped(way, command),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        **{"stdout": subprocess.DEVNULL, **more},
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    """Returns a TCP port at which no process listens at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int) -> None:
    """Waits until a process listens at a port. Raises `TimeoutError` after about 10 s."""
    for _ in range(400):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.025)
    raise TimeoutError(f"nobody listens at {port}")


def round_trip(way: str) -> Figures:
    """Measures round trips of 64 B, and a stream of writes of 64 KiB."""
    program = str(FOLDER / "roundtrip")
    kind = "unix" if way == "unix" else "tcp"
    rounds = "1000000" if way == "reference" else "50000"
    small = float(run(way, [program, kind, "64", rounds]))
    large = float(run(way, [program, kind, "65536", "60000", "stream"]))
    return {"64 B: round trips/s": 1e6 / small, "64 KiB writes: GB/s": large}


def redis(way: str) -> Figures:
    """Measures SET and GET with redis-benchmark, for several numbers of clients, pipeline depths and sizes of values."""
    port, path = free_port(), FOLDER / "redis.sock"
    server = [
        "redis-server",
        "--port",
        str(port),
        "--unixsocket",
        str(path),
        "--save",
        "",
        "--dir",
        str(FOLDER),
    ]
    found: Figures = {}
    with served(way, server):
        wait_for(port)
        to = ["-s", str(path)] if way == "unix" else ["-p", str(port)]
        for clients in (1, 8, 50):
            for pipeline in (1, 16):
                for size in (3, 1024, 262144):
                    count = {3: 60000, 1024: 60000, 262144: 4000}[size] * (
                        2 if pipeline > 1 and size < 2000 else 1
                    )
                    shape = ["-c", str(clients), "-P", str(pipeline), "-d", str(size), "-n", str(count)]
                    text = run(way, ["redis-benchmark", *to, *shape, "-t", "set,get", "--csv"])
                    for line in text.splitlines()[1:]:
                        name, rate = line.replace('"', "").split(",")[:2]
                        found[f"{name} c={clients} P={pipeline} {size} B: requests/s"] = float(rate)
    return found


def iperf(way: str) -> Figures:
    """Measures one stream with iperf3."""
    if way == "unix":
        return {}
    port = free_port()
    with served(way, ["iperf3", "-s", "-p", str(port)]):
        wait_for(port)
        text = run(way, ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", "3", "--json"])
    return {"one stream: GB/s": json.loads(text)["end"]["sum_received"]["bits_per_second"] / 8e9}


def nginx(way: str) -> Figures:
    """Measures nginx: wrk requests files of 1 KiB and 64 KiB."""
    if way == "unix":
        return {}
    port, folder = free_port(), FOLDER / f"nginx-{way}"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    FOLDER.chmod(0o755)
    for name, size in (("1k", 1024), ("64k", 65536)):
        (folder / name).write_bytes(b"x" * size)
    (folder / "conf").write_text(
        f"daemon off; master_process off; error_log {folder}/error; pid {folder}/pid;\n"
        "events { worker_connections 512; }\n"
        f"http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {folder}; "
        f"proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};\n"
        f"server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n"
    )
    found: Figures = {}
    with served(way, ["nginx", "-c", str(folder / "conf")]):
        wait_for(port)
        for clients in (1, 32):
            for name in ("1k", "64k"):
                asks = ["wrk", "-t1", f"-c{clients}", "-d2s", f"http://127.0.0.1:{port}/{name}"]
                rate = re.search(r"Requests/sec:\s+([\d.]+)", run(way, asks))
                if rate:
                    found[f"{name} c={clients}: requests/s"] = float(rate.group(1))
    return found


def memcached(way: str) -> Figures:
    """Measures memcached: one client gets values of 1 KiB."""
    port, path = free_port(), FOLDER / "memcached.sock"
    where = ["-s", str(path)] if way == "unix" else ["-l", "127.0.0.1", "-p", str(port)]
    with served(way, ["memcached", "-u", "root", "-t", "1", *where]):
        for _ in range(200):
            if path.exists() if way == "unix" else not wait_for(port):
                break
            time.sleep(0.02)
        to = str(path) if way == "unix" else str(port)
        return {
            "GET 1 KiB: requests/s": float(
                run(way, [sys.executable, str(HERE / "memcached_get.py"), to, "30000"])
            )
        }


def postgres(way: str) -> Figures:
    """Measures PostgreSQL with selects of pgbench."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"))
    as_user: list[str] = []
    owner = None
    if os.geteuid() == 0:
        owner = pwd.getpwnam("postgres")
        as_user = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
    folder, port = Path("/tmp") / f"unrack-pg-{os.getpid()}-{way}", free_port()
    folder.mkdir(mode=0o700)
    if owner:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    found: Figures = {}
    try:
        data = str(folder / "data")
        run("tcp", [*as_user, str(programs / "initdb"), "-D", data, "-A", "trust", "--no-sync"])
        server = [
            str(programs / "postgres"),
            "-D",
            data,
            "-k",
            str(folder),
            "-p",
            str(port),
            "-c",
            "fsync=off",
        ]
        broker = str(folder / "sockets.sock")
        command = [*as_user, *server]
        if way == "reference":
            command = [*as_user, UNRACK, "sockets", "--socket", broker, "--", *server]
        with served("tcp", command, cwd="/"):
            wait_for(port)
            host = str(folder) if way == "unix" else "127.0.0.1"
            base = [str(programs / "pgbench"), "-h", host, "-p", str(port)]
            for _ in range(100):
                with contextlib.suppress(subprocess.CalledProcessError):
                    run("tcp", [*as_user, *base, "-i", "-q", "-s", "2", "postgres"])
                    break
                time.sleep(0.1)
            for clients in (1, 8):
                asks = [*base, "-n", "-S", "-M", "prepared", "-T", "3", "-c", str(clients), "postgres"]
                command = [*as_user, *asks]
                if way == "reference":
                    command = [*as_user, UNRACK, "sockets", "--socket", broker, "--", *asks]
                rate = re.search(r"tps = ([\d.]+) \(without", run("tcp", command))
                if rate:
                    found[f"selects c={clients}: transactions/s"] = float(rate.group(1))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def python_pair(way: str, script: str, rounds: int) -> float:
    """Runs a Python script as a server and as its client, and returns the number that the client prints."""
    with served(way, [sys.executable, str(HERE / script)], stdout=subprocess.PIPE) as server:
        assert server.stdout
        port = server.stdout.readline().decode().strip()
        return float(run(way, [sys.executable, str(HERE / script), port, str(rounds)]))


def asyncio_echo(way: str) -> Figures:
    """Measures an echo of 64 B with Python's asyncio; TCP only."""
    return {} if way == "unix" else {"64 B: round trips/s": python_pair(way, "echo.py", 20000)}


def grpc(way: str) -> Figures:
    """Measures a ping-pong of 64 B with gRPC; TCP only."""
    return {} if way == "unix" else {"64 B: calls/s": python_pair(way, "grpc_echo.py", 5000)}


def go_http(way: str) -> Figures:
    """Measures Go's net/http with requests of wrk. Its server always uses the kernel's sockets."""
    if way == "unix":
        return {}
    with served(way, [str(FOLDER / "hello")], stdout=subprocess.PIPE) as server:
        assert server.stdout
        port = server.stdout.readline().decode().strip()
        text = run(way, ["wrk", "-t1", "-c8", "-d2s", f"http://127.0.0.1:{port}/"])
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    return {"1 KiB c=8: requests/s": float(rate.group(1))} if rate else {}


JOBS: dict[str, tuple[Callable[[str], Figures], list[str]]] = {
    "roundtrip": (round_trip, []),
    "redis": (redis, ["redis-server", "redis-benchmark"]),
    "iperf3": (iperf, ["iperf3"]),
    "nginx": (nginx, ["nginx", "wrk"]),
    "memcached": (memcached, ["memcached"]),
    "postgres": (postgres, ["pgbench"]),
    "asyncio": (asyncio_echo, []),
    "grpc": (grpc, []),
    "go": (go_http, ["go", "wrk"]),
}


def lacks(job: str) -> str | None:
    """Returns the reason why a job cannot run on this machine, or None if it can."""
    missing = [program for program in JOBS[job][1] if not shutil.which(program)]
    if missing:
        return f"no {' and no '.join(missing)}"
    if job == "grpc" and not importlib.util.find_spec("grpc"):
        return "no grpcio for Python"
    if job == "go" and not (FOLDER / "hello").exists():
        return "the Go program did not build"
    return None


def spread(values: list[float]) -> str:
    """Returns the median with the minimum and the maximum, as text."""
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def measure(job: str, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Runs a job for some rounds, in which the ways of connecting take turns.

    Returns one value per round, by the name of the figure and the way.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(rounds):
        for way in WAYS:
            for name, value in JOBS[job][0](way).items():
                found.setdefault(name, {}).setdefault(way, []).append(value)
    return found


def tell(job: str, name: str, ways: dict[str, list[float]]) -> None:
    """Prints one figure: the values of the kernel's TCP, and the ratios of sockets by reference to the kernel's in the same rounds."""
    line = f"| {job}: {name} | {spread(ways['tcp'])} |"
    for peer in ("tcp", "unix"):
        if peer in ways:
            ratios = [ours / theirs for ours, theirs in zip(ways["reference"], ways[peer], strict=True)]
            line += f" {spread(ratios)} |"
        else:
            line += " |"
    print(line, flush=True)


def one_way_ns(way: str, size: int) -> float:
    """Returns the nanoseconds that a message takes in one direction, measured as half of a round trip."""
    rounds = "300000" if way == "reference" else "50000"
    return float(run(way, [str(FOLDER / "roundtrip"), "tcp", str(size), rounds])) * 500


def costs(rounds: int) -> dict[str, object]:
    """Measures the costs that `unrack study run drack/fig13 --costs` reads: medians over rounds in which the ways take turns."""
    sizes = (64, 1024)
    times: dict[str, dict[int, list[float]]] = {
        way: {size: [] for size in sizes} for way in ("tcp", "reference")
    }
    copies = []
    for _ in range(rounds):
        for way, by_size in times.items():
            for size in sizes:
                by_size[size].append(one_way_ns(way, size))
        copies.append(
            float(run("reference", [str(FOLDER / "roundtrip"), "tcp", "65536", "60000", "stream"])) * 1e9
        )
    medians = {
        way: {str(size): statistics.median(of) for size, of in by_size.items()}
        for way, by_size in times.items()
    }
    processor = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "machine": f"{processor.group(1) if processor else platform.machine()}, {os.cpu_count()} cores, "
        f"Linux {platform.release()}",
        "by_value_ns": medians["tcp"],
        "by_reference_ns": medians["reference"],
        "copy_bytes_per_s": statistics.median(copies),
    }


def main() -> None:
    """Runs the jobs and prints a table, or with `--costs` writes the costs to a file."""
    global FOLDER
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--costs", type=Path)
    parser.add_argument("jobs", nargs="*")
    args = parser.parse_args()
    FOLDER = args.folder
    all_found = {}
    if args.costs:
        with served("tcp", [UNRACK, "sockets", "serve", "--socket", str(FOLDER / "sockets.sock")]):
            time.sleep(0.5)
            args.costs.write_text(json.dumps(costs(args.rounds), indent=1) + "\n")
        return
    print("| job | kernel TCP | by reference / TCP | by reference / Unix |\n|---|---|---|---|", flush=True)
    with served("tcp", [UNRACK, "sockets", "serve", "--socket", str(FOLDER / "sockets.sock")]):
        time.sleep(0.5)
        for job in args.jobs or JOBS:
            if why := lacks(job):
                print(f"sockets.sh: {job} is left out: {why}", file=sys.stderr)
                continue
            all_found[job] = measure(job, args.rounds)
            for name, ways in all_found[job].items():
                tell(job, name, ways)
    if args.json:
        args.json.write_text(json.dumps(all_found, indent=1))


if __name__ == "__main__":
    main()
