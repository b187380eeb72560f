"""Clients that are generated from the document, against the running server."""

import importlib
import pathlib
import shutil
import subprocess
import sys

from harness.environment import TARGET

HOST = "a5500000-0000-4000-8000-00000000000a"
CONSUMER = "c0500000-0000-4000-8000-00000000000a"
VERSION = "placement 1.39"
# Makes the client for Rust, and what its code needs.
OAS3_GEN = "0.29.0"
RUST = pathlib.Path(__file__).parent / "rust"


def python(folder: pathlib.Path, document: pathlib.Path, url: str, planner_url: str) -> None:
    """openapi-python-client."""
    package = folder / "python" / "berth_client"
    shutil.rmtree(package.parent, ignore_errors=True)
    package.parent.mkdir()
    command = ["openapi-python-client", "generate", "--path", document, "--meta", "none", "--output-path", package]
    subprocess.run(command, check=True, capture_output=True)
    sys.path.insert(0, str(package.parent))
    client_of = importlib.import_module("berth_client").AuthenticatedClient
    call = lambda module: importlib.import_module(f"berth_client.api.{module}").sync_detailed  # noqa: E731
    model = lambda name: getattr(importlib.import_module("berth_client.models"), name)  # noqa: E731

    def client(address: str):
        return client_of(base_url=address, token="admin", auth_header_name="X-Auth-Token", prefix="")

    placement, planner = client(url), client(planner_url)
    version = {"client": placement, "open_stack_api_version": VERSION}

    body = model("ResourceProvidersCreateBody114")(name="python", uuid=HOST)
    created = call("placement.resource_providers_create")(body=body, **version)
    assert created.status_code == 200 and str(created.parsed.root_provider_uuid) == HOST, created
    again = call("placement.resource_providers_create")(body=body, **version)
    assert again.status_code == 409 and again.parsed.errors[0].code == "placement.duplicate_name", again

    body = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
    body = model("InventoriesReplaceBody").from_dict(body)
    replaced = call("placement.inventories_replace")(HOST, body=body, **version)
    assert replaced.parsed.inventories["VCPU"].max_unit == 2**31 - 1, replaced

    found = call("placement.allocation_candidates_list")(resources="VCPU:2", **version)
    assert HOST in found.parsed.provider_summaries.additional_properties, found

    claim = {"allocations": {HOST: {"resources": {"VCPU": 2}}}, "project_id": "p", "user_id": "u",
             "consumer_generation": None, "consumer_type": "INSTANCE"}  # fmt: skip
    body = model("AllocationsReplaceBody138").from_dict(claim)
    claimed = call("placement.allocations_replace")(CONSUMER, body=body, **version)
    assert claimed.status_code == 204, claimed
    shown = call("placement.allocations_show")(CONSUMER, **version)
    assert shown.parsed.consumer_generation == 1 and shown.parsed.consumer_type == "INSTANCE", shown
    assert shown.parsed.allocations[HOST].resources["VCPU"] == 2, shown

    explained = call("operator.operator_explain_show")(resources="VCPU:7", **version)
    assert explained.parsed.hosts == 1 and explained.parsed.fitting == 0, explained

    body = model("PlannerGroupsCreateBody").from_dict({"name": "python", "type": "diversity", "level": "rack"})
    group = call("planner.planner_groups_create")(client=planner, body=body)
    assert group.status_code == 201 and group.parsed.level == "rack", group
    status = call("planner.planner_status_show")(client=planner)
    assert status.parsed.status.placement.resources.resource_providers >= 1, status

    assert call("placement.allocations_delete")(CONSUMER, **version).status_code == 204
    assert call("placement.resource_providers_delete")(HOST, **version).status_code == 204


def rust(folder: pathlib.Path, document: pathlib.Path, url: str, planner_url: str) -> None:
    """oas3-gen."""
    tools, crate = TARGET / "oas3-gen", folder / "rust"
    install = ["cargo", "install", "--quiet", "--locked", "--root", tools, "--version", OAS3_GEN, "oas3-gen"]
    subprocess.run(install, check=True)
    shutil.rmtree(crate / "src", ignore_errors=True)
    shutil.copytree(RUST, crate, dirs_exist_ok=True)
    generate = [tools / "bin" / "oas3-gen", "generate", "client-mod", "-i", document, "-o", crate / "src" / "berth"]
    subprocess.run(generate, check=True, capture_output=True)
    subprocess.run(["cargo", "run", "--quiet", "--", url, planner_url], cwd=crate, check=True)
