"""A service and its client: `hello.py serve`, and `hello.py call NAME`."""

import sys
import threading

from unrack import rpc


def serve() -> None:
    """Greets whoever calls, until this process is ended."""
    with rpc.Server("hello") as server:

        @server.method("greet")
        def greet(call: rpc.Incoming) -> bytes:
            # The client could change the request while it is read: a copy is what counts.
            name = bytes(call.request).decode()
            return f"Hello, {name}, from Python".encode()

        server.start()
        print("serving", flush=True)
        threading.Event().wait()


def call(name: str) -> None:
    """Prints the greeting of the service."""
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
