"""A Debian 12 with a systemd of its own, in a container of systemd-nspawn.

Needs root, debootstrap and systemd-container (Debian: `apt-get install debootstrap systemd-container`). Without them, a
suite says loudly that nothing was tested, and ends with exit code 77. The Debian is made once, in target/systemd/root (a
minute, and packages from the mirror of Debian), or taken from --root.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

PROJECT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGES = "systemd,systemd-sysv,dbus,libnss-systemd,postgresql,curl,procps"
NAME = f"berth-{os.getpid()}"
# The machine may be busy.
PATIENCE = 120
ADDRESS = "http://127.0.0.1:8778/"


def skip(why):
    print(f"NOT TESTED: {why}", file=sys.stderr)
    print("To test it: run this as root after `apt-get install debootstrap systemd-container`.", file=sys.stderr)
    sys.exit(77)


def program():
    """The program to test: $BERTH_BIN, else target/debug/berth."""
    chosen = pathlib.Path(os.environ.get("BERTH_BIN", PROJECT / "target/debug/berth")).resolve()
    if not chosen.is_file():
        sys.exit(f"There is no {chosen}: run `cargo build` first, or set BERTH_BIN.")
    return chosen


def debian(root):
    """Makes sure that the folder has a Debian 12."""
    if os.geteuid() != 0:
        skip("only root may start a container")
    if not shutil.which("systemd-nspawn"):
        skip("there is no systemd-nspawn")
    if not (root / "usr/bin/systemctl").exists():
        if not shutil.which("debootstrap"):
            skip("there is no debootstrap")
        unfinished = root.with_suffix(".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        made = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(unfinished)]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        unfinished.rename(root)


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.2)
    raise AssertionError(f"not within {PATIENCE} s: {what}")


def run_in_order(tests, machine):
    """Runs tests, of which later ones go on from where earlier ones stopped, as an operator does."""
    try:
        for test in tests:
            began = time.monotonic()
            test(machine)
            print(f"ok  {test.__name__} ({time.monotonic() - began:.0f} s)", flush=True)
    finally:
        machine.end()
    print(f"{len(tests)} passed")


class Machine:
    """A Debian with a systemd of its own. What is written in it is gone at its end."""

    def __init__(self, root, bound):
        """The folder with the Debian; what it sees of this machine: {path there: path here}."""
        self.log = open(root.parent / "console.log", "w")
        command = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network"]
        command += ["--volatile=overlay", f"--machine={NAME}", f"--directory={root}", "--boot", "--console=pipe"]
        command += [f"--bind-ro={here}:{there}" for there, here in bound.items()]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.leader = None
        until("systemd runs", self.is_running)

    def is_running(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        if not children:
            return False
        self.leader = children[0]
        state = self.run("systemctl is-system-running", check=False).stdout.strip()
        return state in ("running", "degraded")

    def run(self, script, check=True):
        enter = ["nsenter", "--target", self.leader, "--mount", "--pid", "--net", "--ipc", "--uts", "--"]
        clean = ["env", "--ignore-environment", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        clean += ["HOME=/root", "LC_ALL=C.UTF-8", "sh", "-c", f"cd /src && {script}"]
        done = subprocess.run(enter + clean, capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{script}\n  exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def write(self, path, text, mode="0644"):
        folder = os.path.dirname(path)
        self.run(f"mkdir -p {folder} && umask 0077 && printf '%s' {quoted(text)} >{path} && chmod {mode} {path}")

    def show(self, unit, name):
        return self.run(f"systemctl show {unit} --property={name} --value").stdout.strip()

    def status(self, url=ADDRESS, more=""):
        done = self.run(f"curl --silent --output /dev/null --write-out '%{{http_code}}' --max-time 20 {more} {url}", check=False)
        return done.stdout.strip()

    def journal(self):
        return self.run("journalctl --unit berth --no-pager --output cat", check=False).stdout

    def end(self):
        # SIGTERM to systemd-nspawn powers the machine off; a second one does so at once.
        for _ in range(3):
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
                break
            except subprocess.TimeoutExpired:
                pass
        else:
            self.process.kill()
        self.log.close()
