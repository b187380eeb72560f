"""What a run found, in words and as JSON."""

import argparse
import collections
import json
import math

import answers
import verdict
from answers import READS, WRITES, Window
from history import History
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
        "unanswered": answers.unanswered(history, windows, chosen.after),
        "longest_gap": {kind: gap(history, kind, windows, span) for kind in (READS, WRITES)},
        "copies": {
            keeper.name: {
                "events": sum(len(stretch.events) for stretch in keeper.stretches),
                "connected": keeper.connected, "compared": keeper.compared, "gaps": keeper.gaps,
            }
            for keeper in outcome.keepers
        },
        "violations": [violation.summary() for violation in judged.violations],
        "believed": judged.believed, "stale_believed": judged.stale,
        "audit": audit,
        "checked_in": round(judged.seconds, 1),
        "passed": not judged.violations and not audit,
    }  # fmt: skip


def gap(history: History, kind: str, windows: list[Window], span: tuple[float, float]) -> dict:
    """The longest time without a good answer, and the faults that it fell into."""
    begin, seconds = answers.gap(history, kind, *span)
    during = [w.name for w in windows if w.begin <= begin + seconds and w.end >= begin]
    return {"seconds": round(seconds, 2), "during": during}


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
        "longest time without a good answer: " + ", ".join(
            f"{kind}s {of['seconds']} s ({', '.join(of['during']) or 'no fault'})"
            for kind, of in document["longest_gap"].items()
        ),
    ]
    if document["recoveries"]:
        lines.append(
            f"{'back after (s)':20} {'reads: median':>14} {'longest':>8} {'writes: median':>15} {'longest':>8}"
            f" {'not answered: reads':>20} {'writes':>7}"
        )
    for fault, of in document["recoveries"].items():
        read, write = of[READS], of[WRITES]
        times = (read["median"], read["longest"], write["median"], write["longest"])
        seconds = ["never" if took is None else f"{took:.2f}" for took in times]
        failed = document["unanswered"].get(fault, {READS: 0, WRITES: 0})
        lines.append(
            f"{fault:20} {seconds[0]:>14} {seconds[1]:>8} {seconds[2]:>15} {seconds[3]:>8}"
            f" {failed[READS]:>20} {failed[WRITES]:>7}"
        )
    if document["recoveries"]:
        both = [times for of in document["recoveries"].values() for times in of.values()]
        within, all_ = sum(t["within_goal"] for t in both), sum(t["replicas"] for t in both)
        lines.append(f"back within {GOAL_SECONDS:g} s: {within} of {all_} first good reads and writes")
    if document["disks_refused"] and document["disks_refused"] != "not asked for":
        lines.append(f"disk-full was left out: {document['disks_refused']}")
    if document["believed"]:
        lines.append(
            f"{document['believed']} answers while a deposed primary may be believed, "
            f"{document['stale_believed']} contradictions among them"
        )
    for name, of in document["copies"].items():
        lines.append(
            f"{name}: {of['events']} events over {of['connected']} connections, "
            f"{of['gaps']} gaps, compared {of['compared']} times"
        )
    by_kind = collections.defaultdict(list)
    for violation in judged.violations:
        by_kind[violation.kind].append(violation)
    for kind, found in by_kind.items():
        lines.append(f"VIOLATION {kind}: {len(found)} times, such as")
        for violation in found[:EXAMPLES]:
            lines += [f"  {line}" for line in violation.lines()]
    if document["audit"]:
        lines += ["VIOLATION `berth db check` says:", document["audit"]]
    total = len(judged.violations) + bool(document["audit"])
    lines.append(f"{total} violations")
    return lines
