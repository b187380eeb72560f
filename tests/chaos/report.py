"""What a run found, in words and as JSON."""

import argparse
import collections
import json
import math

import answers
import verdict
from answers import READS, WRITES
from stage import Stage
from trial import Outcome

GOAL_SECONDS = 2.0
# Of each kind of violation, so many are told in words.
EXAMPLES = 3


def tell(chosen: argparse.Namespace, stage: Stage, outcome: Outcome, audit: str) -> int:
    """Print the report, write it as JSON if that is wanted, and return the exit status."""
    document = summary(chosen, stage, outcome, audit)
    print("\n".join(words(document, outcome.judged)), flush=True)
    if chosen.report:
        chosen.report.write_text(json.dumps(document, indent=1) + "\n")
    if chosen.keep:
        (stage.folder / "report.json").write_text(json.dumps(document, indent=1) + "\n")
    return 0 if document["passed"] else 1


def summary(chosen: argparse.Namespace, stage: Stage, outcome: Outcome, audit: str) -> dict:
    """All figures."""
    history, windows, judged, span = outcome.history, outcome.windows, outcome.judged, outcome.span
    faults = collections.Counter(window.name for window in windows)
    return {
        "seed": chosen.seed, "seconds": round(span[1] - span[0], 1), "route": chosen.route,
        "operations": len(history.operations), "counts": verdict.counts(history),
        "statuses": verdict.statuses(history),
        "acknowledged_writes": verdict.acknowledged_writes(history),
        "unknown_writes": verdict.unknown_writes(history),
        "faults": dict(sorted(faults.items())),
        "windows": [
            [w.name, round(w.begin - span[0], 2), round(w.returned - span[0], 2), round(w.end - span[0], 2), w.replicas]
            for w in windows if w.returned < math.inf
        ],
        "disks_refused": stage.disks_refused,
        "recoveries": recoveries(judged.recoveries),
        "longest_gap": {kind: round(answers.gap(history, kind, *span), 2) for kind in (READS, WRITES)},
        "violations": [violation.summary() for violation in judged.violations],
        "stale_allowed": len(judged.allowed),
        "audit": audit,
        "checked_in": round(judged.seconds, 1),
        "passed": not judged.violations and not audit,
    }  # fmt: skip


def recoveries(found: list[answers.Recovery]) -> dict:
    """By fault: how many, the median and the longest time to the first good read and write."""
    by_fault: dict[str, dict] = {}
    for kind in (READS, WRITES):
        times = collections.defaultdict(list)
        for recovery in found:
            took = recovery.read if kind == READS else recovery.write
            times[recovery.fault].append(math.inf if took is None else took)
        for fault, all_ in times.items():
            all_.sort()
            by_fault.setdefault(fault, {})[kind] = {
                "replicas": len(all_), "median": _seconds(all_[len(all_) // 2]), "longest": _seconds(all_[-1]),
                "within_goal": sum(took <= GOAL_SECONDS for took in all_),
            }  # fmt: skip
    return dict(sorted(by_fault.items()))


def _seconds(took: float) -> float | None:
    return None if took == math.inf else round(took, 2)


def words(document: dict, judged: verdict.Verdict) -> list[str]:
    lines = [
        f"seed {document['seed']}, {document['seconds']} s, route {document['route']}: "
        f"{document['operations']} operations, {document['acknowledged_writes']} writes acknowledged, "
        f"{document['unknown_writes']} of unknown outcome; checked in {document['checked_in']} s",
        "statuses: " + ", ".join(f"{status} x {count}" for status, count in document["statuses"].items()),
        "faults: " + (", ".join(f"{name} x {count}" for name, count in document["faults"].items()) or "none"),
        f"longest time without a good answer: reads {document['longest_gap'][READS]} s, "
        f"writes {document['longest_gap'][WRITES]} s",
    ]
    if document["recoveries"]:
        lines.append(f"{'back after':20} {'reads: median':>14} {'longest':>8} {'writes: median':>15} {'longest':>8}")
    for fault, of in document["recoveries"].items():
        read, write = of[READS], of[WRITES]
        told = [str(x) if x is not None else "never" for x in (read["median"], read["longest"], write["median"], write["longest"])]
        lines.append(f"{fault:20} {told[0]:>14} {told[1]:>8} {told[2]:>15} {told[3]:>8}")
    if document["disks_refused"] and document["disks_refused"] != "not asked for":
        lines.append(f"disk-full was left out: {document['disks_refused']}")
    if document["stale_allowed"]:
        lines.append(f"{document['stale_allowed']} stale reads while a deposed primary may be believed")
    by_kind = collections.defaultdict(list)
    for violation in judged.violations:
        by_kind[violation.kind].append(violation)
    for kind, found in by_kind.items():
        lines.append(f"VIOLATION {kind}: {len(found)} times, such as")
        for violation in found[:EXAMPLES]:
            lines += [f"  {line}" for line in violation.lines()]
    if document["audit"]:
        lines += ["VIOLATION `berth db audit` says:", document["audit"]]
    total = len(judged.violations) + bool(document["audit"])
    lines.append(f"{total} violations")
    return lines
