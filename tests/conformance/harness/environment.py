"""The private Python environments that suites and benchmarks run in.

    python3 environment.py REQUIREMENTS PROGRAM [ARGUMENT ...]

runs a program in the environment for a file of requirements. This module runs on the system's Python and uses
nothing but its standard library. An environment lives in target/<the folder of its requirements>/venv and is
built again whenever its requirements or constraints.txt change.
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
CONSTRAINTS = CONFORMANCE / "constraints.txt"

OLDEST_PYTHON = (3, 11)


def enter(requirements: pathlib.Path, program: pathlib.Path, arguments: list[str]) -> None:
    """Replace this process by `program`, run in the environment for `requirements`."""
    venv = ensure(TARGET / requirements.parent.name, requirements)
    os.environ["PYTHONPATH"] = str(CONFORMANCE)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # Some tests run the programs of the packages by their bare names.
    os.environ["PATH"] = f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    python = str(venv / "bin" / "python")
    os.execv(python, [python, str(program), *arguments])


def ensure(
    folder: pathlib.Path, requirements: pathlib.Path, constraints: pathlib.Path = CONSTRAINTS
) -> pathlib.Path:
    """Return the environment in `folder`, building it if needed."""
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(
            "The suites need Python %d.%d or newer as python3; this is %s."
            % (*OLDEST_PYTHON, sys.version.split()[0])
        )
    folder.mkdir(parents=True, exist_ok=True)
    venv = folder / "venv"
    # Two runners started together must not build it twice.
    with open(folder / "venv.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = venv / "complete"
        wanted = _fingerprint(requirements, constraints)
        if not mark.is_file() or mark.read_text() != wanted:
            _build(venv, requirements, constraints)
            mark.write_text(wanted)
    return venv


def _fingerprint(requirements: pathlib.Path, constraints: pathlib.Path) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for file in (requirements, constraints):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _build(venv: pathlib.Path, requirements: pathlib.Path, constraints: pathlib.Path) -> None:
    print(f"Preparing the Python environment in {venv} ...", flush=True)
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        sys.exit(
            "Python's venv module is incomplete here: on Debian and Ubuntu, "
            "`apt-get install python3-venv` brings what is missing."
        )
    shutil.rmtree(venv, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    install = [
        venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--requirement", requirements, "--constraint", constraints,
    ]  # fmt: skip
    if subprocess.run(install).returncode != 0:
        sys.exit(
            f"pip could not install {requirements} (see above); "
            "the suites need the package index at the first run."
        )


if __name__ == "__main__":
    enter(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:])
