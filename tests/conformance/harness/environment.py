"""The private Python environment the suites run in.

This module runs on the system's Python and uses nothing but its standard
library. The environment lives in target/conformance/venv and is built again
whenever requirements.txt or constraints.txt change.
"""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

CONFORMANCE = pathlib.Path(__file__).resolve().parent.parent
REPOSITORY = CONFORMANCE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
WORK = TARGET / "conformance"
VENV = WORK / "venv"

OLDEST_PYTHON = (3, 11)


def enter(program: pathlib.Path, arguments: list[str]) -> None:
    """Replace this process by `program` run in the private environment."""
    python = ensure()
    os.environ["PYTHONPATH"] = str(CONFORMANCE)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # Some tests run the programs of the packages by their bare names.
    os.environ["PATH"] = f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    os.execv(python, [str(python), str(program), *arguments])


def ensure() -> pathlib.Path:
    """Return the environment's python, building the environment if needed."""
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(
            "The suites need Python %d.%d or newer as python3; this is %s."
            % (*OLDEST_PYTHON, sys.version.split()[0])
        )
    WORK.mkdir(parents=True, exist_ok=True)
    python = VENV / "bin" / "python"
    # Two runners started together must not build it twice.
    with open(WORK / "venv.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_complete():
            _build(python)
    return python


def _is_complete() -> bool:
    mark = VENV / "complete"
    return mark.is_file() and mark.read_text() == _fingerprint()


def _fingerprint() -> str:
    digest = hashlib.sha256(sys.version.encode())
    for name in ("requirements.txt", "constraints.txt"):
        digest.update((CONFORMANCE / name).read_bytes())
    return digest.hexdigest()


def _build(python: pathlib.Path) -> None:
    print(f"Preparing the Python environment in {VENV} ...", flush=True)
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        sys.exit(
            "Python's venv module is incomplete here: on Debian and Ubuntu, "
            "`apt-get install python3-venv` brings what is missing."
        )
    shutil.rmtree(VENV, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    install = [
        python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--requirement", CONFORMANCE / "requirements.txt",
        "--constraint", CONFORMANCE / "constraints.txt",
    ]  # fmt: skip
    if subprocess.run(install).returncode != 0:
        sys.exit(
            "pip could not install tests/conformance/requirements.txt "
            "(see above); the suites need the package index at the first run."
        )
    (VENV / "complete").write_text(_fingerprint())
