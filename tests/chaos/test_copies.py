"""Tests of the checker of copies: what keeps a copy right, and what is found when it does not."""

import unittest

from copies import Copy, Keeper, Stretch, Wrong, disagreements

OWNER = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}


def bulk(number: int, generation: int, held: int | None) -> Copy:
    allocations = {"c": {**OWNER, "consumer_generation": 1, "resources": {"VCPU": held}}} if held else {}
    return Copy.of({
        "number": number,
        "providers": [{"uuid": "h", "generation": generation, "allocations": allocations}],
    })  # fmt: skip


def claim(number: int, generation: int, held: int | None) -> dict:
    event = {"number": number, "kind": "consumer", "uuid": "c", **OWNER, "left": {}, "allocations": {}}
    if held:
        event["allocations"] = {"h": {"generation": generation, "resources": {"VCPU": held}}}
    else:
        event["left"] = {"h": generation}
    return {**event, "consumer_generation": 1 if held else None}


class Copies(unittest.TestCase):
    def test_a_copy_that_is_told_everything_is_the_cloud(self):
        copy = bulk(1, 1, None)
        for event in (claim(4, 2, 3), claim(5, 3, 2), {"number": 7, "kind": "position"}):
            copy.apply(event)
        self.assertEqual((copy.number, copy.differences(bulk(7, 3, 2))), (7, []))
        copy.apply(claim(8, 4, None))
        self.assertEqual(copy.differences(bulk(8, 4, None)), [])

    def test_an_event_that_is_missing_is_found(self):
        copy = bulk(1, 1, None)
        copy.apply(claim(4, 2, 3))
        found = copy.differences(bulk(5, 3, 2))
        self.assertEqual(len(found), 2, found)
        with self.assertRaisesRegex(Wrong, "'c', which the copy does not have"):
            bulk(1, 1, None).apply(claim(5, 3, None))

    def test_an_event_that_comes_twice_or_late_is_found(self):
        copy = bulk(4, 2, 3)
        for event in (claim(4, 2, 3), {"number": 3, "kind": "position"}):
            with self.assertRaisesRegex(Wrong, "after 4"):
                copy.apply(event)

    def test_keepers_are_told_the_same(self):
        one, other = (Keeper(name, [], 1) for name in ("one", "other"))
        one.stretches = [Stretch(1, 5, {2: 20, 4: 40}), Stretch(7, 9, {8: 80})]
        other.stretches = [Stretch(2, 9, {4: 40, 6: 60, 8: 80})]
        self.assertEqual(disagreements([one, other]), [])
        other.stretches[0].events[8] = 81
        del other.stretches[0].events[4]
        self.assertEqual(len(disagreements([one, other])), 2)
