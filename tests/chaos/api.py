"""Requests to the replicas, each logged with what became of it."""

import time

from history import OK, REFUSED, UNREACHED, History, Operation
from wire import Answer, Broken, Connection, Unreached

# Reshapes are for services.
ROLES = "admin,service"
VERSION = "1.39"


class Replica:
    """Where a replica is reached: the Placement API and the planner."""

    def __init__(self, name: str, placement: int, planner: int) -> None:
        self.name = name
        self.placement = placement
        self.planner = planner


class Caller:
    """A client with one connection to each address; it has one request under way at a time."""

    def __init__(self, name: str, project: str, history: History, replicas: list[Replica]) -> None:
        self.name = name
        self.project = project
        self.history = history
        self.replicas = {replica.name: replica for replica in replicas}
        self._connections: dict[tuple[str, str], Connection] = {}

    async def do(
        self, kind: str, replica: str, method: str, path: str, request: dict, body=None, read=None,
        planner: bool = False, version: str = VERSION, **manner,
    ) -> Operation:  # fmt: skip
        """Ask, and log it. `read` makes of the answer what the checkers need.

        `body` may be a function of the operation, for bodies that carry its tag.
        """
        operation = self.history.begin(self.name, kind, replica, request)
        if callable(body):
            body = body(operation)
        headers = {"X-Auth-Token": f"admin:{self.project}", "X-Roles": ROLES, "Accept": "application/json"}
        if not planner:
            headers["OpenStack-API-Version"] = f"placement {version}"
        connection = self._connection(replica, planner)
        try:
            answer = await connection.ask(method, path, headers, body, **manner)
        except Unreached as nobody:
            operation.outcome, operation.note = UNREACHED, str(nobody)
            operation.end = time.monotonic()
        except Broken as broken:
            operation.note = str(broken)
        else:
            self._judge(operation, answer, read)
        operation.heard = time.monotonic()
        return operation

    def _judge(self, operation: Operation, answer: Answer, read) -> None:
        operation.status = answer.status
        operation.retry_after = answer.headers.get("retry-after")
        now = time.monotonic()
        if answer.status < 400:
            operation.response = read(answer) if read else {}
            operation.outcome, operation.end = OK, now
        elif answer.status < 500:
            operation.outcome, operation.end = REFUSED, now
            operation.note = reason(answer)
        else:
            # It may have been done. When the answer came is not needed, but said for the report.
            operation.note = f"after {now - operation.begin:.2f} s: {reason(answer)}"

    def _connection(self, replica: str, planner: bool) -> Connection:
        key = (replica, "planner" if planner else "placement")
        if key not in self._connections:
            self._connections[key] = Connection(getattr(self.replicas[replica], key[1]))
        return self._connections[key]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def reason(answer: Answer) -> str:
    """The code or the words of a refusal, shortened."""
    try:
        document = answer.json()
        error = document["errors"][0] if "errors" in document else document
        words = error.get("detail") or error.get("explanation") or ""
        words = words if isinstance(words, str) else str(words)
        # The first sentence is always the same.
        return f"{error.get('code', '')} {words.split(chr(10))[-1]}".strip()[:300]
    except (ValueError, AttributeError, KeyError, TypeError):
        return answer.text[:200].decode(errors="replace")
