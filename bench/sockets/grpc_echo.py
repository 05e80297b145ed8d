"""Ping-pong with gRPC for Python: a server that prints its port, or a client that prints the calls per second."""

import sys
import time
from concurrent import futures

import grpc

METHOD = "/bench.Echo/Say"


def serve() -> None:
    """Prints the port, and serves until the process is ended."""
    handler = grpc.unary_unary_rpc_method_handler(lambda request, _: request)
    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", {"Say": handler}),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


def ask(port: int, rounds: int) -> None:
    """Makes calls of 64 bytes, `rounds` times. Prints the calls per second."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        say = channel.unary_unary(METHOD)
        say(b"x" * 64)
        begin = time.perf_counter()
        for _ in range(rounds):
            say(b"x" * 64)
        print(rounds / (time.perf_counter() - begin))


if len(sys.argv) > 1:
    ask(int(sys.argv[1]), int(sys.argv[2]))
else:
    serve()
