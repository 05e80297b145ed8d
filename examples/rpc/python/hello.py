"""A service and its client: `hello.py serve` runs the service, and `hello.py call NAME` calls it."""

import sys
import threading

from unrack import rpc


def serve() -> None:
    """Serves greetings to clients until this process is ended."""
    with rpc.Server("hello") as server:

        @server.method("greet")
        def greet(call: rpc.Incoming) -> bytes:
            # Copy the request before reading it, because the client can change the shared memory at any time.
            name = bytes(call.request).decode()
            return f"Hello, {name}, from Python".encode()

        server.start()
        print("serving", flush=True)
        threading.Event().wait()


def call(name: str) -> None:
    """Calls the service, and prints its greeting."""
    text = name.encode()
    with rpc.connect("hello") as client, client.call("greet", len(text), 256) as request:
        request.body[:] = text
        print(bytes(request.answer()).decode())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            serve()
        case ["call", name]:
            call(name)
        case _:
            sys.exit("usage: hello.py serve | call NAME")
