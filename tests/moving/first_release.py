"""A database by the first release of openstack-placement on the package index, 0.1.0 of January 2019."""

import pathlib
import subprocess
import tempfile

from harness import environment
from harness.environment import TARGET

import everything
import sources
from moving_case import Moving, Reference, Request, _environment, send

HERE = pathlib.Path(__file__).resolve().parent
# Its only schema, which Stein has as well.
SCHEMA = "b4ed3a175331"


def uuid_of(number: int) -> str:
    return f"0000000a-0000-4000-8000-{number:012d}"


class FirstRelease(Moving):
    """What it stores, Berth answers; and what Berth exports, it answers."""

    # The newest version of its API.
    VERSION = "1.30"

    def test_mariadb(self) -> None:
        pinned = HERE / "first-release.txt"
        programs = environment.ensure(TARGET / "moving-first-release", pinned, constraints=pinned) / "bin"
        with sources.mariadb() as old, sources.mariadb() as other:
            for url in (old, other):
                self.sync(programs, url)
            with Reference(old, programs / "python").start("moving-first-release") as reference:
                self.fill(reference.url)
                theirs = everything.Everything([reference.url], version=self.VERSION).tables()
                self.assertEqual((len(theirs["providers"]), len(theirs["consumers"])), (18, 60))
                report = self.imports(old)
                self.assertEqual((report["schema"], report["findings"]), (SCHEMA, []))
                with self.serving() as server:
                    ours = everything.Everything([server.url], version=self.VERSION).tables()
                self.same(theirs, ours)
            done = self.exports(other)
            self.assertEqual(done.returncode, 0, done.stderr)
            with Reference(other, programs / "python").start("moving-first-release-back") as back:
                self.same(theirs, everything.Everything([back.url], version=self.VERSION).tables())

    def same(self, theirs: dict, ours: dict) -> None:
        """Standard names are those of the newest release here, and those of the old one there."""
        for tables in (theirs, ours):
            names = tables.pop("names")
            tables["names"] = {key: [it for it in of if it.startswith("CUSTOM_")] for key, of in names.items()}
        self.assertEqual(everything.differences(theirs, ours), [])

    def sync(self, programs: pathlib.Path, url: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            conf = pathlib.Path(folder) / "placement.conf"
            conf.write_text(f"[placement_database]\nconnection = {url}\n")
            command = [programs / "placement-manage", "--config-dir", folder, "db", "sync"]
            subprocess.run(command, check=True, capture_output=True, env=_environment())

    def fill(self, url: str) -> None:
        """Trees with inventories, traits and aggregates, and consumers, over the API."""

        def ask(method: str, path: str, body: dict | None = None) -> None:
            answer = send(url, Request(method, path, self.VERSION, body=body))
            self.assertLess(answer.status, 300, f"{method} {path}: {answer}")

        ask("PUT", "/traits/CUSTOM_GOLD")
        ask("PUT", "/resource_classes/CUSTOM_TOKEN")
        for nth in range(18):
            own, parent = uuid_of(nth), uuid_of(nth - nth % 3) if nth % 3 else None
            ask("POST", "/resource_providers", {
                "uuid": own, "name": f"p{nth}", **({"parent_provider_uuid": parent} if parent else {}),
            })  # fmt: skip
            stock = {"VCPU": {"total": 100, "allocation_ratio": 1.3}, "CUSTOM_TOKEN": {"total": 100}}
            ask("PUT", f"/resource_providers/{own}/inventories", {
                "resource_provider_generation": 0, "inventories": stock,
            })  # fmt: skip
            ask("PUT", f"/resource_providers/{own}/traits", {
                "resource_provider_generation": 1, "traits": ["CUSTOM_GOLD", "HW_CPU_X86_AVX2"][: 1 + nth % 2],
            })  # fmt: skip
            ask("PUT", f"/resource_providers/{own}/aggregates", {
                "resource_provider_generation": 2, "aggregates": [uuid_of(900 + nth % 2)],
            })  # fmt: skip
        for nth in range(60):
            held = {uuid_of(nth % 18): {"resources": {"VCPU": 2, "CUSTOM_TOKEN": 1}}}
            held[uuid_of(17 - nth % 18)] = {"resources": {"VCPU": 1}}
            ask("PUT", f"/allocations/{uuid_of(100 + nth)}", {
                "allocations": held, "project_id": f"p{nth % 3}", "user_id": "u", "consumer_generation": None,
            })  # fmt: skip
