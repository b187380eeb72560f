"""Generated configurations, read by oslo.config and by `berth config convert`.

Each case is up to three files, perhaps a folder of files, and variables of the
environment, made at random from what the language has: sections in any case,
quotes, continuation lines, comments, repeated and former names, references,
values of every kind, and mistakes. The options are registered as placement and
keystonemiddleware register them. What both say must be equal, and what
oslo.config cannot read must be refused.
"""

import argparse
import logging
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import tomllib

from harness import servers
from keystoneauth1 import loading
from keystonemiddleware.auth_token import _opts as auth_token
from oslo_config import cfg
from placement import conf as placement_conf

K = "keystone_authtoken"

# Options as (group, name), and the key that berth writes their value under.
TEXTS = {
    (K, "auth_url"): "keystone-auth-url",
    (K, "username"): "keystone-username",
    (K, "password"): "keystone-password",
    (K, "project_name"): "keystone-project-name",
    (K, "user_domain_id"): "keystone-user-domain-id",
    (K, "www_authenticate_uri"): "keystone-www-authenticate-uri",
    (K, "interface"): "keystone-interface",
    (K, "cafile"): "keystone-ca-file",
}
BOOLEANS = {
    (K, "insecure"): "keystone-insecure",
    (K, "service_token_roles_required"): "keystone-service-token-roles-required",
    ("oslo_policy", "enforce_new_defaults"): "enforce-new-defaults",
}
NUMBERS = {
    ("placement", "max_allocation_candidates"): "max-allocation-candidates",
    (K, "http_connect_timeout"): "keystone-timeout",
}
LISTS = {
    (K, "service_token_roles"): "keystone-service-token-roles",
    ("cors", "allowed_origin"): "cors-allowed-origin",
}
CHOICES = {
    ("placement", "allocation_candidates_generation_strategy"):
        "allocation-candidates-generation-strategy",
}
KEYS = {**TEXTS, **BOOLEANS, **NUMBERS, **LISTS, **CHOICES}
FORMER = {
    (K, "username"): ["user-name", "user_name"],
    (K, "project_name"): ["tenant-name", "tenant_name"],
}

WORDS = ["a", "b c", "x=y", "p:q", "#", "; d", "é", "'", '"', "\\", ",", "{}", "[s]", "\u00a0", "0"]
REFERENCES = [
    "$username", "${username}", "$placement.incomplete_consumer_user_id", "${cors.max_age}",
    "$$", "\\$", "$5", "$", "${", "$debug", "$oslo_policy.enforce_new_defaults", "$log_dir",
    "${keystone_authtoken.interface}", "$keystone_authtoken.service_token_roles", "$$$debug",
]
BAD_REFERENCES = [
    "$nobody", "$cors.allow_credentials.", "$api", "$API.auth_strategy", "${interface}x",
    "$DEFAULT.debug", "$debug.x", "$auth-url",
]


class Case:
    """What one import is given."""

    def __init__(self, chance: random.Random):
        self.chance = chance
        self.files = [self.file() for _ in range(chance.choice([1, 1, 1, 2, 3]))]
        self.folder = [self.file() for _ in range(chance.choice([0, 0, 0, 1, 2]))]
        self.environment = {}
        for group, name in self.options(chance.choice([0, 0, 0, 1, 2])):
            variable = f"OS_{group.upper()}__{name.upper()}"
            self.environment[variable] = self.value((group, name)).strip("\n")

    def options(self, count: int) -> list:
        return [self.chance.choice(list(KEYS)) for _ in range(count)]

    def file(self) -> str:
        lines = []
        group = None
        for option in sorted(self.options(self.chance.randint(1, 8))):
            if option[0] != group or self.chance.random() < 0.1:
                group = option[0]
                lines.append(self.section(group))
            if self.chance.random() < 0.2:
                lines.append(self.chance.choice(["", "# note", "; a = b", "#"]))
            lines += self.assignment(option)
        if self.chance.random() < 0.03:
            mistake = self.chance.choice(["word", " = x", "= x", "[", "[]", "[a] # b", ": y", "\tx"])
            lines.insert(self.chance.randint(0, len(lines)), mistake)
        return self.chance.choice(["\n", "\n", "\n", "\r\n", "\r"]).join(lines) + "\n"

    def section(self, group: str) -> str:
        return self.chance.choice([f"[{group}]"] * 4 + [f"[{group.upper()}]", f"[{group}]  "])

    def assignment(self, option: tuple) -> list:
        names = [option[1]] * 3 + FORMER.get(option, [])
        sign = self.chance.choice([" = ", "=", " =", ": ", ":", "  =  "])
        value = self.value(option)
        if self.chance.random() < 0.1:
            quote = self.chance.choice(["'", '"'])
            value = quote + value + quote
        return (self.chance.choice(names) + sign + value).split("\n")

    def value(self, option: tuple) -> str:
        chance = self.chance
        if option in BOOLEANS:
            return chance.choice(
                ["true", "True", "yes", "on", "1", "false", "FALSE", "no", "Off", "0"] * 8
                + ["", "maybe", "2", "${keystone_authtoken.insecure}"]
            )
        if option in NUMBERS:
            return chance.choice(
                ["1", "20", "+3", "1_000", "007", "4294967295", "600", ""] * 8
                + ["x", "1.5", "1__0", "0x10", "$max_age", "${cors.max_age}"]
            )
        if option in CHOICES:
            return chance.choice(["depth-first", "breadth-first"] * 15 + ["Depth-First", ""])
        if option in LISTS:
            items = [chance.choice(["a", " b ", "https://c:1", "", "d e", "$$", "$interface"])
                     for _ in range(chance.randint(0, 4))]
            return chance.choice([",", ", ", ",\n  "]).join(items)
        needed = option[1] in ("auth_url", "password")
        parts = ["n"] * needed + [chance.choice(WORDS) for _ in range(chance.randint(0, 3))]
        if chance.random() < 0.2:
            parts.append(chance.choice(REFERENCES))
        if chance.random() < 0.01:
            parts.append(chance.choice(BAD_REFERENCES))
        if chance.random() < 0.1:
            parts.append("\n" + chance.choice(["  ", "\t", " "]) + chance.choice(WORDS))
        return chance.choice(["", "", " "]).join(parts)


def write(case: Case, folder: pathlib.Path) -> tuple[list[str], str | None]:
    """Write the case's files, with what no import goes without."""
    base = folder / "base.conf"
    base.write_text(
        "[placement_database]\nconnection = postgresql://h/d\n"
        f"[{K}]\nauth_type = password\nauth_url = http://k\npassword = p\n"
    )
    names = [str(base)]
    for nth, text in enumerate(case.files):
        path = folder / f"{nth}.conf"
        path.write_bytes(text.encode())
        names.append(str(path))
    if not case.folder:
        return names, None
    parts = folder / "parts"
    parts.mkdir()
    for nth, text in enumerate(case.folder):
        (parts / f"{9 - nth}.conf").write_bytes(text.encode())
    return names, str(parts)


def with_oslo(names: list[str], parts: str | None) -> dict | None:
    """What oslo.config says of each option; None if it cannot read the files."""
    conf = cfg.ConfigOpts()
    placement_conf.register_opts(conf)
    for group, options in auth_token.list_opts():
        conf.register_opts(options, group=group)
    for option in loading.get_auth_plugin_conf_options("password"):
        conf.register_opt(option, group=K)
    arguments = [word for name in names for word in ("--config-file", name)]
    arguments += ["--config-dir", parts] if parts else []
    try:
        conf(arguments, project="placement", default_config_files=[], default_config_dirs=[])
        said = {option: conf[option[0]][option[1]] for option in KEYS}
    except (cfg.Error, RecursionError):
        return None
    # Berth refuses what Keystone cannot be asked with.
    return said if said[K, "auth_url"] and said[K, "password"] else None


def with_berth(berth: str, names: list[str], parts: str | None) -> dict | None:
    """What berth writes; None if it refuses."""
    command = [berth, "config", "convert", *names, *(["--config-dir", parts] if parts else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return tomllib.loads(done.stdout)
    if done.returncode == 1 and not done.stdout:
        return None
    sys.exit(f"berth ended with {done.returncode}: {done.stderr}")


def differences(said: dict, default: dict, written: dict) -> list[str]:
    """Where berth's file says something else than oslo.config."""
    found = []
    for option, key in KEYS.items():
        wanted = said[option]
        if option in LISTS:
            wanted = None if wanted is None else ",".join(item for item in wanted if item)
        # What is not given is not written, and Keystone's empty texts mean the same.
        if key not in written:
            same = said[option] == default[option] or wanted in (None, "")
        else:
            same = type(written[key]) is type(wanted) and written[key] == wanted
        if not same:
            found.append(f"{option}: oslo.config {wanted!r}, berth {written.get(key)!r}")
    return found


def run(berth: str, seed: int, count: int) -> int:
    refused = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for nth in range(count):
            case = Case(random.Random(f"{seed}/{nth}"))
            folder = pathlib.Path(scratch) / str(nth)
            folder.mkdir()
            names, parts = write(case, folder)
            default = with_oslo(names[:1], None)
            os.environ.update(case.environment)
            said, written = with_oslo(names, parts), with_berth(berth, names, parts)
            for variable in case.environment:
                del os.environ[variable]
            refused += said is None
            if said is None or written is None:
                found = [] if said is written else [
                    f"oslo.config {'refuses' if said is None else 'reads'} it, berth does not"
                ]
            else:
                found = differences(said, default, written)
            if found:
                failed += 1
                print(f"case {nth} of seed {seed}:", *found, sep="\n  ")
                print(*case.files, *case.folder, case.environment, sep="\n---\n")
    print(f"{count} configurations, {refused} of them refused; {failed} read differently")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/import/run", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    parser.add_argument("--count", type=int, default=1000, help="default: 1000")
    options = parser.parse_args()
    # The use of former names is no news.
    logging.disable(logging.WARNING)
    # Variables of whoever runs this must not count.
    for variable in [name for name in os.environ if name.startswith("OS_")]:
        del os.environ[variable]
    return run(str(servers.find_berth()), options.seed, options.count)


if __name__ == "__main__":
    sys.exit(main())
