"""Berth's verdicts beside those of oslo.policy, on generated rules and on the defaults.

Run it by `tests/policy/run`, which prepares the Python environment first.
"""

import itertools
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from harness import report
from harness.servers import find_berth
from oslo_config import cfg
from oslo_policy import _checks, _parser, opts, policy
from placement import policies

import expressions

RULES = 3000
CALLERS = 24
BROKEN = 400
SEED = 20261121

PROGRAM = find_berth()


class Counts:
    """What agreed, and what did not."""

    def __init__(self) -> None:
        self.agreed = 0
        self.differed = 0

    def compare(self, ours, theirs, case) -> None:
        if ours == theirs:
            self.agreed += 1
        else:
            self.differed += 1
            print(f"FAIL  {case()}: Berth says {ours}, oslo.policy {theirs}", flush=True)


def main() -> int:
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for part in (generated_rules, broken_rules, default_rules):
            before = counts.agreed
            part(folder, random.Random(SEED), counts)
            print(f"{part.__name__}: {counts.agreed - before} verdicts agree", flush=True)
    return report.finish(counts.agreed, counts.differed, 0)


def generated_rules(folder: pathlib.Path, chance: random.Random, counts: Counts) -> None:
    """Rules that can be read, and callers of every kind."""
    rules = expressions.rules(chance, RULES)
    file = folder / "generated.json"
    file.write_text(json.dumps(rules))
    enforcer = enforcer_of(file)
    for _ in range(CALLERS):
        caller, target = expressions.caller(chance), expressions.target(chance)
        ours = verdicts(folder, caller, target, "--policy-file", file)
        for name, rule in rules.items():
            theirs = bool(enforcer.rules[name](target, caller, enforcer, name))
            counts.compare(ours[name], theirs, lambda: f"{rule!r} for {caller}, about {target}")


def broken_rules(folder: pathlib.Path, chance: random.Random, counts: Counts) -> None:
    """Expressions with a word too many or too few: both can read one, or neither can."""
    file = folder / "broken.json"
    for _ in range(BROKEN):
        text = expressions.broken(chance)
        file.write_text(json.dumps({"x": text, "base0": "@"}))
        command = [PROGRAM, "policy", "list", "--policy-file", file]
        done = subprocess.run(command, capture_output=True, text=True)
        counts.compare(done.returncode == 0, readable(text), lambda: repr(text))


def default_rules(folder: pathlib.Path, _chance, counts: Counts) -> None:
    """Every rule of openstack-placement, with the present defaults and with those before."""
    roles = ("admin", "service", "manager", "member", "reader", "plain", "ADMIN")
    several = [[], *([role] for role in roles), *map(list, itertools.combinations(roles, 2))]
    for new_defaults in (True, False):
        enforcer = enforcer_of(None, new_defaults)
        flags = ("--enforce-new-defaults", str(new_defaults).lower())
        for held, project in itertools.product(several, ("p", "q", None)):
            caller = {"user_id": "u", "project_id": project, "roles": held}
            caller = {**expressions.NOTHING_KNOWN, **caller}
            target = {"project_id": "p", "user_id": "u"}
            ours = verdicts(folder, caller, target, *flags)
            for rule in policies.list_rules():
                theirs = bool(enforcer.enforce(rule.name, dict(target), dict(caller)))
                case = f"{rule.name} for {held} of {project}, new defaults {new_defaults}"
                counts.compare(ours[rule.name], theirs, lambda: case)


def enforcer_of(file: pathlib.Path | None, new_defaults: bool = True) -> policy.Enforcer:
    """oslo.policy with the rules of a file, or those of openstack-placement."""
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[], default_config_dirs=[])
    opts._register(conf)
    conf.set_override("policy_file", str(file or "/nonexistent"), "oslo_policy")
    conf.set_override("policy_dirs", [], "oslo_policy")
    conf.set_override("enforce_new_defaults", new_defaults, "oslo_policy")
    enforcer = policy.Enforcer(conf)
    enforcer.suppress_default_change_warnings = True
    enforcer.suppress_deprecation_warnings = True
    if file is None:
        enforcer.register_defaults(policies.list_rules())
    enforcer.load_rules()
    return enforcer


def verdicts(folder: pathlib.Path, caller: dict, target: dict, *flags) -> dict[str, bool]:
    """Berth's verdict on every rule."""
    credentials = folder / "credentials.json"
    credentials.write_text(json.dumps(caller))
    about = [part for name, value in target.items() for part in ("--target", f"{name}={value}")]
    command = [PROGRAM, "policy", "check", "--credentials", credentials, *about, *flags]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"`berth policy check` failed: {done.stdout}{done.stderr}")
    lines = (line.rsplit(" ", 1) for line in done.stdout.splitlines())
    return {name: verdict == "allowed" for name, verdict in lines}


def readable(text: str) -> bool:
    """Whether oslo.policy understands an expression, instead of failing closed."""

    class Refused(Exception):
        pass

    def refuse(*_arguments, **_options):
        raise Refused

    log, _parser.LOG.exception = _parser.LOG.exception, refuse
    try:
        _parser.parse_rule(text)
        return True
    except Refused:
        return False
    finally:
        _parser.LOG.exception = log


if __name__ == "__main__":
    assert _checks.registered_checks
    sys.exit(main())
