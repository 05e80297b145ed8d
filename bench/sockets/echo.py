"""Echo with Python's asyncio: a server that prints its port, or a client that prints the round trips per second."""

import asyncio
import sys
import time


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends all received data back to the client."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve() -> None:
    """Prints the port, and serves until the process is ended."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def ask(port: int, rounds: int) -> None:
    """Sends 64 bytes and waits for their echo, `rounds` times. Prints the round trips per second."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    begin = time.perf_counter()
    for _ in range(rounds):
        writer.write(b"x" * 64)
        await reader.readexactly(64)
    print(rounds / (time.perf_counter() - begin))
    writer.close()


if len(sys.argv) > 1:
    asyncio.run(ask(int(sys.argv[1]), int(sys.argv[2])))
else:
    asyncio.run(serve())
