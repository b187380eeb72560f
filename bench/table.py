"""The table that a run ends with."""

import dataclasses
import datetime
import pathlib
import platform
import statistics
import subprocess

from harness.environment import REPOSITORY

import servers
from clouds import Cloud
from measure import Sample
from workloads import Workload

DOCUMENT = REPOSITORY / "docs" / "benchmarks.md"
MARKS = "<!-- the table of {}: bench/run --record writes it -->\n", "<!-- its end -->\n"


@dataclasses.dataclass
class Rounds:
    """What was measured of one workload, a value a round."""

    berth: list[Sample] = dataclasses.field(default_factory=list)
    reference: list[Sample] = dataclasses.field(default_factory=list)
    limit: list[float] = dataclasses.field(default_factory=list)

    def ratios(self) -> list[float]:
        """Berth's rate over the reference's."""
        return [b.rate / r.rate for b, r in zip(self.berth, self.reference)]

    def shares(self) -> list[float]:
        """Berth's rate over what the machine can do."""
        return [b.rate / limit for b, limit in zip(self.berth, self.limit)]


@dataclasses.dataclass
class Run:
    """A whole run."""

    load_before: float
    rounds: int
    seconds: float
    rows: dict[Workload, Rounds] = dataclasses.field(default_factory=dict)
    starts: list[str] = dataclasses.field(default_factory=list)

    def add(self, workload: Workload, server: str, sample: Sample) -> None:
        """Note a measurement."""
        getattr(self.rows.setdefault(workload, Rounds()), server).append(sample)

    def add_limit(self, workload: Workload, limit: float | None) -> None:
        """Note what the machine could do in this round."""
        if limit is not None:
            self.rows.setdefault(workload, Rounds()).limit.append(limit)

    def note_start(self, cloud: Cloud, seconds: float, resident: int) -> None:
        """Note how long Berth took from its start to its first response, and its memory then."""
        self.starts.append(
            f"{cloud.name} ({cloud.providers:,} providers): {seconds:.1f} s, {resident / 1e6:,.0f} MB"
        )

    def line(self, workload: Workload) -> str:
        """The last round of a workload."""
        rounds = self.rows[workload]
        parts = [workload.name, f"Berth {_rate(rounds.berth[-1].rate)}"]
        if rounds.reference:
            parts.append(f"reference {_rate(rounds.reference[-1].rate)}")
        if rounds.limit:
            parts.append(f"limit {_rate(rounds.limit[-1])}")
        return ", ".join(parts)


HEAD = (
    "workload", "reference", "Berth", "ratio", "limit", "share of limit", "p50, p99",
    "CPU for each: reference", "CPU for each: Berth", "must", "aim",
)  # fmt: skip


def render(run: Run, goals: bool) -> str:
    """The run as Markdown, with the rates that each workload must reach and aims at, or without."""
    columns = len(HEAD) if goals else len(HEAD) - 2
    lines = [_row(HEAD[:columns]), _row(["---"] * columns)]
    lines += [_row(_cells(workload, rounds)[:columns]) for workload, rounds in run.rows.items()]
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=10"],
        cwd=REPOSITORY, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    about = [
        f"{datetime.date.today()}, commit {commit}, {_processor()}, {servers.CORES} cores, "
        f"{_memory_gib()} GiB, Linux {platform.release()}; load average before: "
        f"{run.load_before:.1f}. {run.rounds} rounds of {run.seconds:g} s for each server and workload, "
        "median (least to most). Rates are requests a second; CPU is server + PostgreSQL.",
        "",
    ]
    starts = ["", "From the start of Berth to its first response, and its memory then:", ""]
    starts += [f"- {start}" for start in run.starts]
    return "\n".join(["", *about, *lines, *starts, ""])


def record(run: Run, name: str) -> None:
    """Replace one of the tables of the document."""
    text = render(run, goals=False)
    begin, end = MARKS[0].format(name), MARKS[1]
    head, found, rest = DOCUMENT.read_text().partition(begin)
    _, ended, tail = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{DOCUMENT.name} has no place for the table of {name}")
    DOCUMENT.write_text(head + begin + text + "\n" + end + tail)


def _cells(workload: Workload, rounds: Rounds) -> list[str]:
    return [
        workload.name,
        _spread([s.rate for s in rounds.reference], _rate) + _refused(rounds.reference),
        _spread([s.rate for s in rounds.berth], _rate) + _refused(rounds.berth),
        _middle(rounds.ratios(), lambda ratio: f"{_number(ratio)}x"),
        f"{workload.limit} {_spread(rounds.limit, _rate)}" if rounds.limit else "",
        _middle(rounds.shares(), lambda share: f"{share:.2f}"),
        _times(rounds.berth),
        _costs(rounds.reference),
        _costs(rounds.berth),
        workload.floor,
        workload.moon,
    ]


def _refused(samples: list) -> str:
    conflicts = sum(sample.conflicts for sample in samples)
    return f" ({conflicts} times 409)" if conflicts else ""


def _middle(values: list[float], show) -> str:
    return show(statistics.median(values)) if values else ""


def _spread(values: list[float], show) -> str:
    if len(values) < 2:
        return _middle(values, show)
    return f"{_middle(values, show)} ({show(min(values))} to {show(max(values))})"


def _times(samples: list[Sample]) -> str:
    if not samples:
        return ""
    p50 = statistics.median(sample.p50 for sample in samples)
    p99 = statistics.median(sample.p99 for sample in samples)
    return f"{_time(p50)}, {_time(p99)}"


def _costs(samples: list[Sample]) -> str:
    if not samples:
        return ""
    server = statistics.median(sample.cpu_server for sample in samples)
    database = statistics.median(sample.cpu_database for sample in samples)
    return f"{_time(server)} + {_time(database)}"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    if seconds >= 1e-3:
        return f"{_number(seconds * 1e3)} ms"
    return f"{seconds * 1e6:.0f} us"


def _rate(rate: float) -> str:
    return _number(rate)


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _row(cells) -> str:
    return "| " + " | ".join(cells) + " |"


def _processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _memory_gib() -> int:
    total = pathlib.Path("/proc/meminfo").read_text().split()[1]
    return round(int(total) / 2**20)
