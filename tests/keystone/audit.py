"""The audit log, with callers whom Keystone knows: its events are those that pycadf takes."""

import json
import pathlib
import tempfile
import warnings

import pycadf.attachment
import pycadf.cadftaxonomy
import pycadf.event
import pycadf.host
import pycadf.reason
import pycadf.resource
from exchange import ask
from scene import Case, beyond_the_reference


class Audited(Case):
    """With a server that writes events of CADF."""

    @beyond_the_reference("it has no audit log")
    def test_events_are_those_of_pycadf(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "audit.log"
            options = self.scene.gated() | {"audit_log": str(file), "audit_format": "cadf"}
            with self.scene.source.start("audited", **options) as server:
                token = self.people.token("operator", "admin")
                for method, path, by, status in (
                    ("PUT", "/traits/CUSTOM_AUDITED", token, 201),
                    ("DELETE", "/traits/CUSTOM_AUDITED", token, 204),
                    ("DELETE", "/traits/CUSTOM_AUDITED", token, 404),
                    ("PUT", "/traits/CUSTOM_AUDITED", "made up for the audit", 401),
                ):
                    answer = ask(server.url + path, method, by, headers={"OpenStack-API-Version": "placement 1.39"})
                    self.assertEqual(status, answer.status, answer.body)
            events = [json.loads(line) for line in file.read_text().splitlines()]
        self.assertEqual(
            [("update", "success"), ("delete", "success"), ("delete", "failure"), ("update", "failure")],
            [(event["action"], event["outcome"]) for event in events],
        )
        for payload in events:
            self.check(payload)
        self.assertNotEqual("unknown", events[0]["initiator"]["id"])
        self.assertEqual("unknown", events[3]["initiator"]["id"])
        for secret in (token, "made up for the audit"):
            self.assertNotIn(secret, json.dumps(events))

    def check(self, payload: dict) -> None:
        """By the classes of pycadf, which refuse what is none of CADF."""
        with warnings.catch_warnings():
            # That ids of OpenStack's users are UUIDs without dashes.
            warnings.simplefilter("ignore")
            initiator, target = payload["initiator"], payload["target"]
            self.assertTrue(pycadf.cadftaxonomy.is_valid_action(payload["action"]))
            self.assertTrue(pycadf.cadftaxonomy.is_valid_outcome(payload["outcome"]))
            for resource in (initiator, target):
                self.assertTrue(pycadf.cadftaxonomy.is_valid_resource(resource["typeURI"]))
            event = pycadf.event.Event(
                eventType=payload["eventType"],
                id=payload["id"],
                eventTime=payload["eventTime"],
                action=payload["action"],
                outcome=payload["outcome"],
                initiator=pycadf.resource.Resource(
                    id=initiator["id"],
                    typeURI=initiator["typeURI"],
                    host=pycadf.host.Host(address=initiator["host"]["address"]),
                ),
                target=pycadf.resource.Resource(id=target["id"], typeURI=target["typeURI"]),
                observer=pycadf.resource.Resource(id=payload["observer"]["id"]),
                reason=pycadf.reason.Reason(**payload["reason"]),
            )
            for attachment in payload["attachments"]:
                event.add_attachment(pycadf.attachment.Attachment(**attachment))
            self.assertTrue(event.is_valid())
            # All that pycadf writes of the same event is there, and the same.
            theirs = event.as_dict()
            self.assertEqual(theirs["typeURI"], payload["typeURI"])
            self.assertLessEqual(set(theirs), set(payload))
