"""A small client of HTTP/1.1 that knows what became of a request, and can misbehave."""

import asyncio
import contextlib
import dataclasses
import json


class Unreached(Exception):
    """The request was not sent: nobody listens."""


class Broken(Exception):
    """The request was sent, at least in part, and no whole answer came: nobody knows its outcome."""


class Refused(Exception):
    """The answer is not the one that was asked for, but a status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict[str, str]
    text: bytes

    def json(self):
        return json.loads(self.text) if self.text else None


class Connection:
    """One kept-alive connection to one address, opened when it is needed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(
        self, method: str, path: str, headers: dict[str, str], body=None, seconds: float = 15,
        slowly: float = 0, vanish: bool = False,
    ) -> Answer:  # fmt: skip
        """Send a request and read its answer, within `seconds`.

        slowly: seconds that sending the body takes. vanish: go away as soon as all is sent.
        Raises Unreached or Broken.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(method, path, headers, body, slowly, vanish)
        except TimeoutError as late:
            self.close()
            raise Broken(f"no answer in {seconds:g} s") from late
        except (OSError, asyncio.IncompleteReadError, ValueError) as broken:
            self.close()
            raise Broken(f"{type(broken).__name__}: {broken}") from broken
        except BaseException:
            self.close()
            raise

    async def _exchange(self, method, path, headers, body, slowly, vanish) -> Answer:
        if self._streams is not None and self._streams[0].at_eof():
            # The server has closed it since; nothing of this request was sent.
            self.close()
        if self._streams is None:
            try:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
            except OSError as nobody:
                raise Unreached(str(nobody)) from nobody
        reader, writer = self._streams
        payload = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self._port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(payload)}"]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        if slowly and payload:
            half = len(payload) // 2
            writer.write(payload[:half])
            await writer.drain()
            await asyncio.sleep(slowly)
            writer.write(payload[half:])
        else:
            writer.write(payload)
        await writer.drain()
        if vanish:
            raise ConnectionError("the client went away")
        return await self._read(reader)

    async def _read(self, reader: asyncio.StreamReader) -> Answer:
        status, headers = await _head(reader)
        if headers.get("transfer-encoding", "") == "chunked":
            text = b""
            while size := int(await reader.readline(), 16):
                text += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
        else:
            text = await reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Answer(status, headers, text)

    def close(self) -> None:
        if self._streams is not None:
            with contextlib.suppress(Exception):
                self._streams[1].transport.abort()
            self._streams = None


async def stream(port: int, path: str, headers: dict[str, str], silence: float):
    """The lines of an answer that goes on, each within `silence` seconds of the one before.

    Raises Unreached, Broken (also when the answer ends without a last chunk) or Refused.
    """
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    except OSError as nobody:
        raise Unreached(str(nobody)) from nobody
    try:
        lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        async with asyncio.timeout(silence):
            status, _ = await _head(reader)
        if status != 200:
            raise Refused(status)
        rest = b""
        while True:
            async with asyncio.timeout(silence):
                size = int(await reader.readline(), 16)
                rest += (await reader.readexactly(size + 2))[:-2]
            *lines, rest = rest.split(b"\n")
            for line in lines:
                yield line
            if not size:
                return
    except TimeoutError as late:
        raise Broken(f"nothing came in {silence:g} s") from late
    except (OSError, asyncio.IncompleteReadError, ValueError) as broken:
        raise Broken(f"{type(broken).__name__}: {broken}") from broken
    finally:
        writer.transport.abort()


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """The status of an answer, and its headers in lower case."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {}
    for line in head[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return int(head[0].split()[1]), headers
