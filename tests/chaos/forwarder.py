"""TCP between the replicas and the databases, with faults. A process of its own.

Orders come as lines of JSON on standard input; each is answered with one line. A link is a port
that leads to another port; orders name links.

    {"do": "open", "link": "r0", "target": 15001}   answers {"port": N}
    {"do": "redirect", "link": "r0", "target": N}   new connections go there; old ones stay
    {"do": "cut", "link": "r0"}                     resets all connections
    {"do": "freeze", "link": "r0", "on": true}      passes nothing on, and keeps everything open
    {"do": "delay", "link": "r0", "seconds": 0.1}   passes everything on so much later
    {"do": "cut-after-commit", "link": "r0", "count": 3}
        resets the next three connections on which the server says that a commit is done, before the
        client hears of it
    {"do": "refuse", "link": "r0", "on": true}      resets new connections at once
"""

import asyncio
import contextlib
import json
import socket
import struct
import sys

# CommandComplete of PostgreSQL's protocol, with its length, for COMMIT.
COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"
CHUNK = 65536


class Link:
    """A listening port, where it leads to, and what is wrong with it."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.delay = 0.0
        self.refuses = False
        self.cuts = 0
        self.was_cut = 0
        self.flows = asyncio.Event()
        self.flows.set()
        self.writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> int:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return server.sockets[0].getsockname()[1]

    def cut(self) -> int:
        """Reset all connections; return how many sides there were."""
        count = len(self.writers)
        for writer in list(self.writers):
            reset(writer)
        return count

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            reset(writer)
            return
        self.writers.add(writer)
        upstream = None
        try:
            await self.flows.wait()
            there, upstream = await asyncio.open_connection("127.0.0.1", self.target)
            self.writers.add(upstream)
            tasks = [
                asyncio.create_task(self._pass_on(reader, upstream, False)),
                asyncio.create_task(self._pass_on(there, writer, True)),
            ]
            # Either side's end is the end of both: PostgreSQL knows no half-closed connections.
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
        except OSError:
            pass
        finally:
            for side in (writer, upstream):
                if side is not None:
                    self.writers.discard(side)
                    reset(side)

    async def _pass_on(self, reader, writer, from_server: bool) -> None:
        with contextlib.suppress(OSError):
            while True:
                data = await reader.read(CHUNK)
                if not data:
                    return
                if from_server and self.cuts > 0 and COMMITTED in data:
                    self.cuts -= 1
                    self.was_cut += 1
                    return
                if self.delay:
                    await asyncio.sleep(self.delay)
                await self.flows.wait()
                writer.write(data)
                await writer.drain()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with a reset, as when the other host is gone, and not with an orderly end."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def obey(links: dict[str, Link], order: dict) -> dict:
    what = order["do"]
    if what == "open":
        links[order["link"]] = link = Link(order["target"])
        return {"port": await link.open()}
    link = links[order["link"]]
    if what == "redirect":
        link.target = order["target"]
    elif what == "cut":
        return {"cut": link.cut()}
    elif what == "freeze":
        link.flows.clear() if order["on"] else link.flows.set()
    elif what == "delay":
        link.delay = order["seconds"]
    elif what == "cut-after-commit":
        link.cuts, link.was_cut = order["count"], 0
    elif what == "cut-count":
        return {"cut": link.was_cut}
    elif what == "refuse":
        link.refuses = order["on"]
    else:
        raise ValueError(what)
    return {}


async def main() -> None:
    links: dict[str, Link] = {}
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        answer = await obey(links, json.loads(line))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
