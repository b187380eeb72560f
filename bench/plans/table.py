"""The table that a run ends with."""

import dataclasses
import datetime
import os
import platform
import statistics
import subprocess

from harness.environment import REPOSITORY

import service
import cost
import cpsat
from instances import Instance

DOCUMENT = REPOSITORY / "docs" / "benchmarks.md"
RESULTS = REPOSITORY / "bench" / "plans" / "results.md"
BEGIN = "<!-- bench/plans/run --record writes between these lines -->\n"
END = "<!-- end of what bench/plans/run writes -->\n"


@dataclasses.dataclass
class Row:
    """What was measured of one instance."""

    instance: Instance
    greedy: tuple[int, ...] | None = None
    greedy_took: float = 0.0
    of_cpsat: tuple[int, ...] | None = None
    cpsat_bound: tuple[int, ...] | None = None
    cpsat_proven: bool = False
    cpsat_first: float | None = None
    cpsat_took: float = 0.0
    was_compared: bool = False
    berth: service.Result | None = None
    # By policy.
    policies: dict[str, service.PolicyResult | None] = dataclasses.field(default_factory=dict)

    def under(self) -> dict[str, service.PolicyResult | None]:
        """The plans under all policies."""
        return {"pack": self._packed(), **self.policies}

    def _packed(self) -> service.PolicyResult | None:
        ours = self.berth
        if ours is None or ours.cost is None or ours.bound is None:
            return None
        gap = 1 - ours.bound[-1] / ours.cost[-1] if ours.cost[-1] else 0.0
        return service.PolicyResult(ours.proven, gap if ours.cost[:-1] == ours.bound[:-1] else None)

    def add_cpsat(self, result: cpsat.Result, few: bool) -> None:
        """Note an answer of CP-SAT, if it is better. Proofs on few hosts say nothing of all."""
        self.was_compared = True
        if result.placement is not None:
            found = cost.of(self.instance, result.placement)
            if self.of_cpsat is None or found < self.of_cpsat:
                self.of_cpsat = found
            if not few:
                self.cpsat_first = result.first
        if not few:
            self.cpsat_bound, self.cpsat_proven = result.bound, result.proven
            self.cpsat_took = result.took

    def verdict(self) -> str:
        """Berth's plan beside the best of the others."""
        others = [it for it in (self.greedy, self.of_cpsat) if it is not None]
        ours = self.berth.cost if self.berth else None
        if ours is None:
            return "worse" if others else "none"
        if not others or ours < min(others):
            return "better"
        return "equal" if ours == min(others) else "worse"


@dataclasses.dataclass
class Run:
    """A whole run."""

    seconds: int
    workers: int
    load_before: float
    rows: list[Row] = dataclasses.field(default_factory=list)


HEAD = (
    "instance", "hosts", "servers", "groups", "greedy", "CP-SAT", "Berth", "Berth's bound", "Berth is",
    "proven by", "CP-SAT's first, time", "Berth's first, time",
)  # fmt: skip


def cells(row: Row) -> list[str]:
    """A row of the table."""
    ours = row.berth
    proven = [name for name, it in (("CP-SAT", row.cpsat_proven), ("Berth", ours and ours.proven)) if it]
    return [
        row.instance.name,
        row.instance.shape,
        str(len(row.instance.servers)),
        str(len(row.instance.groups)),
        cost.shown(row.greedy) if row.greedy else "none",
        cost.shown(row.of_cpsat) if row.of_cpsat else ("none" if row.was_compared else ""),
        cost.shown(ours.cost) if ours and ours.cost else f"none ({ours.status if ours else ''})",
        cost.shown(ours.bound) if ours and ours.bound else "",
        row.verdict(),
        ", ".join(proven),
        _times(row.cpsat_first, row.cpsat_took) if row.was_compared else "",
        _times(ours.first, ours.took) if ours else "",
    ]


def _times(first: float | None, took: float) -> str:
    found = "none" if first is None else f"{first * 1000:,.0f} ms"
    return f"{found}, {took:.2f} s"


def line(row: Row) -> str:
    """A row as it is measured."""
    why = row.berth.why if row.berth else ""
    return " | ".join([*cells(row), *([why] if why else [])])


def render(run: Run) -> str:
    """The run as Markdown: a row for each instance."""
    rows = [_row(HEAD), _row(["---"] * len(HEAD)), *(_row(cells(row)) for row in run.rows)]
    return "\n".join(["", _about(run), "", *rows, "", *_policies(run), "", ""])


def record(run: Run) -> None:
    """Write the table of all instances to its file, and its summary into the document."""
    RESULTS.write_text(f"# Plans beside CP-SAT and a greedy\n{render(run).rstrip()}\n")
    head, rest = DOCUMENT.read_text().split(BEGIN)
    _, tail = rest.split(END)
    DOCUMENT.write_text(head + BEGIN + _summary(run) + END + tail)


SUMMARY_HEAD = (
    "hosts", "better, equal, worse", "proven by Berth", "by CP-SAT", "found by CP-SAT on all hosts",
    "Berth's first plan: median", "longest",
)  # fmt: skip


def _summary(run: Run) -> str:
    """The run as Markdown: a row for each cloud."""
    clouds: dict[str, list[Row]] = {}
    for row in run.rows:
        clouds.setdefault(_cloud_of(row), []).append(row)
    rows = [_row(SUMMARY_HEAD), _row(["---"] * len(SUMMARY_HEAD))]
    for hosts, of_cloud in clouds.items():
        firsts = [row.berth.first for row in of_cloud if row.berth and row.berth.first is not None]
        rows.append(
            _row([
                hosts,
                ", ".join(str(it) for it in _verdicts(of_cloud).values()),
                f"{sum(1 for row in of_cloud if row.berth and row.berth.proven)} of {len(of_cloud)}",
                str(sum(row.cpsat_proven for row in of_cloud)),
                str(sum(row.cpsat_first is not None for row in of_cloud)),
                f"{statistics.median(firsts) * 1000:,.0f} ms" if firsts else "none",
                f"{max(firsts) * 1000:,.0f} ms" if firsts else "none",
            ])
        )
    return "\n".join(["", _about(run), "", *rows, "", *_policies(run), "", ""])


POLICY_HEAD = (
    "hosts", "policy", "proven", "all but the last component proven", "gap of the last component: median", "largest",
)  # fmt: skip


def _policies(run: Run) -> list[str]:
    """A row for each cloud and policy. Berth's plans only, beside their bounds."""
    found: dict[tuple[str, str], list[service.PolicyResult]] = {}
    for row in run.rows:
        for policy, result in row.under().items():
            if result is not None:
                found.setdefault((_cloud_of(row), policy), []).append(result)
    rows = [_row(POLICY_HEAD), _row(["---"] * len(POLICY_HEAD))]
    for (cloud, policy), results in found.items():
        gaps = [result.gap for result in results if result.gap is not None]
        shown = [f"{statistics.median(gaps):.2%}", f"{max(gaps):.2%}"] if gaps else ["", ""]
        count = f"{sum(result.proven for result in results)} of {len(results)}"
        rows.append(_row([cloud, policy, count, str(len(gaps)), *shown]))
    return rows


def _cloud_of(row: Row) -> str:
    hosts = row.instance.name.partition("-")[0]
    return f"{int(hosts.removesuffix('r')):,}{', rules of racks' if hosts.endswith('r') else ''}"


def _verdicts(rows: list[Row]) -> dict[str, int]:
    verdicts = [row.verdict() for row in rows]
    return {it: verdicts.count(it) for it in ("better", "equal", "worse")}


def _about(run: Run) -> str:
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=10"],
        cwd=REPOSITORY, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    counts = ", ".join(f"{count} {it}" for it, count in _verdicts(run.rows).items())
    ours = sum(1 for row in run.rows if row.berth and row.berth.proven)
    theirs = sum(1 for row in run.rows if row.cpsat_proven)
    return (
        f"{datetime.date.today()}, commit {commit}, {os.cpu_count()} cores, Linux {platform.release()}; load "
        f"average before: {run.load_before:.1f}. {run.seconds} s for each planner; CP-SAT with {run.workers} "
        f"workers. Costs are {' / '.join(cost.NAMES[1:])}. Berth's plans beside the better of the two others: "
        f"{counts}. Proven optimal: {ours} by Berth, {theirs} by CP-SAT."
    )


def _row(parts) -> str:
    return "| " + " | ".join(parts) + " |"
