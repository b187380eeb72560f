"""Putting load on a service and reading what came of it: wrk, our own driver, PostgreSQL's tools."""

import dataclasses
import json
import pathlib
import re
import subprocess
import sys

from harness.postgres import Cluster

import servers

HERE = pathlib.Path(__file__).resolve().parent
VERSION = "placement 1.36"
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


@dataclasses.dataclass(frozen=True)
class Sample:
    """One measurement: rates in requests a second, times in seconds."""

    rate: float
    p50: float
    p99: float
    # Processor time for each request: of the server, and of PostgreSQL.
    cpu_server: float = 0.0
    cpu_database: float = 0.0
    # Requests that were refused although they were in order.
    conflicts: int = 0


class Meter:
    """Runs load and relates it to the processor time it took."""

    def __init__(self, cluster: Cluster, seconds: float) -> None:
        self._cluster = cluster
        self.seconds = seconds

    def wrk(self, service: servers.Service, paths: list[str], connections: int) -> Sample:
        """GETs of the paths in turn."""
        file = servers.WORK / "paths"
        file.write_text("".join(path + "\n" for path in paths))
        command = [
            "wrk", "--threads", "1", "--connections", str(connections),
            "--duration", f"{max(1, round(self.seconds))}s", "--timeout", "120s", "--latency",
            "-H", "X-Auth-Token: admin", "-H", f"OpenStack-API-Version: {VERSION}",
            "-H", "Accept: application/json", "-s", HERE / "rotate.lua", service.url, "--", file,
        ]  # fmt: skip
        text, cpu = self._watched(service, command)
        if "Non-2xx" in text or "Socket errors" in text and not service.fresh:
            sys.exit(f"wrk met errors:\n{text}")
        return self._sample(
            requests=int(_find(r"(\d+) requests in", text)),
            rate=float(_find(r"Requests/sec:\s+([\d.]+)", text)),
            p50=_time(_find(r"^ +50% +(\S+)$", text)),
            p99=_time(_find(r"^ +99% +(\S+)$", text)),
            cpu=cpu,
        )

    def replay(
        self,
        service: servers.Service,
        requests: list[dict],
        workers: int,
        seconds: float | None = None,
        may_refuse: bool = False,
    ) -> Sample:
        """Requests with bodies, each once, or GETs in turn."""
        file = servers.WORK / "requests"
        with open(file, "w") as out:
            out.writelines(json.dumps(request) + "\n" for request in requests)
        return self._driven(service, ["replay", "--file", file], workers, seconds, may_refuse)

    def boots(self, service: servers.Service, query: str, workers: int) -> Sample:
        """Candidates, then a claim of one of them, which another may have filled meanwhile."""
        command = ["boots", "--query", query]
        return self._driven(service, command, workers, self.seconds, may_refuse=True)

    def start(self, service: servers.Service, file: pathlib.Path, rate: int, workers: int):
        """Requests of a file at a fixed rate, in the background."""
        command = ["replay", "--file", file, "--rate", rate, "--seconds", 3600]
        return subprocess.Popen(
            [str(part) for part in [servers.LOAD, *command, *self._options(service, workers)]],
            stdout=subprocess.DEVNULL,
        )

    def paced(self, service: servers.Service, paths: list[str], rate: int, workers: int) -> Sample:
        """GETs at a fixed rate; times count from when each was due."""
        file = servers.WORK / "paced"
        file.write_text("".join(json.dumps({"method": "GET", "path": p}) + "\n" for p in paths))
        command = ["replay", "--file", file, "--rate", rate]
        return self._driven(service, command, workers, self.seconds, may_refuse=False)

    def paced_once(
        self, service: servers.Service, requests: list[dict], rate: float, workers: int
    ) -> Sample:
        """Requests at a fixed rate, each once; times count from when each was due."""
        file = servers.WORK / "requests"
        with open(file, "w") as out:
            out.writelines(json.dumps(request) + "\n" for request in requests)
        command = ["replay", "--file", file, "--rate", rate]
        return self._driven(service, command, workers, None, may_refuse=True, may_be_full=True)

    def simple_update(self) -> float:
        """Transactions a second of pgbench's simple-update."""
        text = self._cluster.tool(
            "pgbench", "-N", "-M", "prepared", "-c", 32, "-j", 2, "-T", round(self.seconds),
            "-h", self._cluster.folder, "-U", "berth", "pgbench",
        )  # fmt: skip
        return float(_find(r"tps = ([\d.]+)", text))

    def fsync(self) -> float:
        """Syncs a second of one page after the other, on the disk of the databases."""
        text = self._cluster.tool(
            "pg_test_fsync", "-s", 1, "-f", self._cluster.folder / "data" / "fsync-test"
        )
        return float(_find(r"fdatasync\s+([\d.]+) ops/sec", text))

    def _driven(
        self, service, command, workers, seconds, may_refuse, may_be_full=False
    ) -> Sample:
        command = [servers.LOAD, *command, *self._options(service, workers)]
        if seconds:
            command += ["--seconds", seconds]
        report, cpu = self._run_driver(service, command)
        statuses = {int(status): count for status, count in report["statuses"].items()}
        done = sum(count for status, count in statuses.items() if 200 <= status < 300)
        conflicts = statuses.get(409, 0)
        full = statuses.get(503, 0)
        allowed = (conflicts if may_refuse else 0) + (full if may_be_full else 0)
        if done + allowed != sum(statuses.values()):
            sys.exit(f"unexpected answers of {service.url} to {command}: {statuses}")
        rate = done / report["seconds"]
        return self._sample(done, rate, report["p50"], report["p99"], cpu, conflicts)

    def _options(self, service: servers.Service, workers: int) -> list:
        targets = [part for address in service.addresses for part in ("--target", address)]
        return [*targets, "--workers", workers, *(["--fresh"] if service.fresh else [])]

    def _watched(self, service, command) -> tuple[str, tuple[float, float]]:
        before = self._cpu(service)
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        after = self._cpu(service)
        if done.returncode != 0:
            sys.exit(f"{command} failed:\n{done.stdout}{done.stderr}")
        return done.stdout, (after[0] - before[0], after[1] - before[1])

    def _run_driver(self, service, command) -> tuple[dict, tuple[float, float]]:
        """What our driver reports, and the processor time between its opening of connections and its end."""
        command = [str(part) for part in command]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
            lines = iter(driver.stdout.readline, "")
            ready = next(lines, None)
            before = self._cpu(service)
            report = next(lines, None)
            after = self._cpu(service)
        if not ready or not report:
            sys.exit(f"{command} failed")
        return json.loads(report), (after[0] - before[0], after[1] - before[1])

    def _cpu(self, service) -> tuple[float, float]:
        return servers.cpu_seconds(service.pids), servers.cpu_seconds([self._cluster.pid])

    def _sample(self, requests, rate, p50, p99, cpu, conflicts=0) -> Sample:
        each = 1 / max(1, requests)
        return Sample(rate, p50, p99, cpu[0] * each, cpu[1] * each, conflicts)


def _find(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    if not found:
        sys.exit(f"no {pattern!r} in:\n{text}")
    return found.group(1)


def _time(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * UNITS[unit]
