"""A Keystone that is slow, away, or talks nonsense, and one that is asked no more than needed."""

import concurrent.futures
import contextlib
import time

from exchange import Answer, ask
from gate import Gate, Holding, answering, cut_short, hanging_up, living, only, refusing, slow
from scene import AMPLE_SECONDS, TIMEOUT_SECONDS, Case, beyond_the_reference

PROVIDERS = "/resource_providers"
# What an answer may take beside the time that Keystone is given. On a busy machine everything takes its
# time; with it, this is still less than what Keystone is given by default.
MARGIN_SECONDS = 6
TOGETHER = 50
# About so many tokens that nobody has seen is Keystone asked at once.
STRANGERS_AT_ONCE = 32


class Gated(Case):
    """With a server that reaches Keystone through the gate."""

    def setUp(self):
        self.gate = self.scene.gate
        self.server = self.scene.server("gated")

    def ask(self, token, server=None, path=PROVIDERS) -> Answer:
        return ask((server or self.server).url + path, token=token)

    def new_token(self) -> str:
        """An admin's, which nobody has seen yet."""
        return self.people.token("operator", "admin")

    def ask_at_once(self, tokens: list[str], server=None) -> list[int]:
        """Statuses of requests that are sent together."""
        with concurrent.futures.ThreadPoolExecutor(len(tokens)) as pool:
            return list(pool.map(lambda token: self.ask(token, server).status, tokens))

    @contextlib.contextmanager
    def fresh(self, name: str, **options):
        """A server of this test alone."""
        options = {"keystone_timeout": TIMEOUT_SECONDS} | options
        with self.scene.source.start(name, **self.scene.gated() | options) as server:
            yield server
            self.assertTrue(server.is_running(), server.tail())

    def unavailable(self, token, server=None) -> None:
        """503 within the time, with the time to come again."""
        began = time.monotonic()
        answer = self.ask(token, server)
        took = time.monotonic() - began
        self.assertEqual(503, answer.status, answer.body)
        if not self.scene.against_reference:
            self.assertGreater(int(answer.headers["Retry-After"]), 0)
            self.assertEqual(503, answer.json()["errors"][0]["status"])
        self.assertEqual("application/json", answer.headers.get_content_type())
        self.assertIn("X-OpenStack-Request-Id", answer.headers)
        self.assertIsNone(answer.headers["WWW-Authenticate"])
        self.assertLess(took, TIMEOUT_SECONDS + MARGIN_SECONDS)


# How Keystone may be of no use, when asked about a token.
TROUBLES = {
    "500": answering(500, b"Internal Server Error"),
    "502": answering(502, b"<html>Bad Gateway</html>", Content_Type="text/html"),
    "503": answering(503, b"", Retry_After="1"),
    "403": answering(403, b'{"error": {"code": 403, "title": "Forbidden", "message": ""}}'),
    "429": answering(429),
    "no JSON": answering(200, b"<html>Welcome</html>", Content_Type="text/html"),
    "bad JSON": answering(200, b'{"token": {', Content_Type="application/json"),
    "other JSON": answering(200, b'{"versions": []}', Content_Type="application/json"),
    "JSON of other types": answering(200, b'{"token": {"user": 5}}', Content_Type="application/json"),
    "nothing": answering(200, b""),
    "no content": answering(204, b""),
    "half of it": cut_short,
    "hangs up": hanging_up,
    "slow": slow(TIMEOUT_SECONDS + 1),
}
# What the reference takes for an answer that the token is bad, or has no answer for.
REFERENCE_FAILS = {
    "no JSON", "bad JSON", "other JSON", "JSON of other types", "nothing", "no content", "half of it", "slow",
}  # fmt: skip


class Asked(Gated):
    """Keystone is in trouble while the server runs."""

    def test_where_to_get_a_token_is_where_the_own_is_from_unless_it_is_said(self):
        challenge = self.ask(None).headers["WWW-Authenticate"]
        self.assertRegex(challenge, f'^Keystone uri="{self.gate.url}(/v3/?)?"$')

    def test_whatever_the_trouble_is(self):
        known = self.new_token()
        self.assertEqual(200, self.ask(known).status)
        for name, trouble in TROUBLES.items():
            if self.scene.against_reference and name in REFERENCE_FAILS:
                continue
            with self.subTest(name):
                token = self.new_token()
                with self.gate.behaving(only("is_validation", trouble)):
                    self.unavailable(token)
                    self.assertEqual(200, self.ask(known).status)
                    self.assertEqual(200, self.ask(None, path="/").status)
                    self.assertEqual(401, self.ask(None).status)
                self.assertEqual(200, self.ask(token).status)

    def test_nobody_is_there(self):
        known, token = self.new_token(), self.new_token()
        self.assertEqual(200, self.ask(known).status)
        with self.gate.closed():
            self.unavailable(token)
            self.unavailable("no token at all")
            self.assertEqual(200, self.ask(known).status)
            self.assertEqual(200, self.ask(None, path="/").status)
        self.assertEqual(200, self.ask(token).status)

    def test_a_remembered_token_ends_although_nobody_is_there(self):
        token = self.keystone.ending(self.new_token(), 8)
        self.assertEqual(200, self.ask(token).status)
        with self.gate.closed():
            self.assertEqual(200, self.ask(token).status)
            time.sleep(8.2)
            self.assertIn(self.ask(token).status, (401, 503))

    def test_a_bad_token_is_remembered_as_bad_although_nobody_is_there(self):
        self.assertEqual(401, self.ask("made up for this").status)
        with self.gate.closed():
            self.assertIn(self.ask("made up for this").status, (401, 503))

    def test_late_is_not_too_late(self):
        with self.fresh("patient", keystone_timeout=AMPLE_SECONDS) as server:
            with self.gate.behaving(slow(TIMEOUT_SECONDS / 3)):
                self.assertEqual(200, self.ask(self.new_token(), server).status)

    @beyond_the_reference("it asks anew each time")
    def test_too_late_is_in_time_for_the_next_request(self):
        token = self.new_token()
        self.ask(self.new_token())
        with self.gate.behaving(only("is_validation", slow(2 * TIMEOUT_SECONDS))):
            self.unavailable(token)
            deadline = time.monotonic() + AMPLE_SECONDS
            while (status := self.ask(token).status) == 503 and time.monotonic() < deadline:
                pass
        self.assertEqual(200, status)
        self.assertEqual(1, self.gate.validations(token))

    @beyond_the_reference("it follows")
    def test_tokens_are_not_carried_elsewhere(self):
        with Gate(self.keystone.url) as elsewhere:
            for status in (301, 302, 303, 307, 308):
                with self.subTest(status):
                    token = self.new_token()
                    there = answering(status, b"", Location=f"{elsewhere.url}/v3/auth/tokens?nocatalog")
                    with self.gate.behaving(there):
                        self.unavailable(token)
                    self.assertEqual(200, self.ask(token).status)
            self.assertEqual([], [seen for seen in elsewhere.seen if seen.subject or seen.body])

    @beyond_the_reference("a process for each request that waits")
    def test_strangers_hold_up_nobody_who_is_known(self):
        known, tokens = self.new_token(), [f"stranger {n}" for n in range(2 * TOGETHER)]
        hold = Holding("stranger")
        # Nothing is remembered, so that the known token is asked about each time.
        options = {"keystone_timeout": AMPLE_SECONDS, "keystone_token_cache_time": 0}
        with self.fresh("crowded", **options) as server, self.gate.behaving(hold):
            self.assertEqual(200, self.ask(known, server).status)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(self.ask_at_once, tokens, server)
                try:
                    hold.await_questions(STRANGERS_AT_ONCE, AMPLE_SECONDS)
                    self.assertEqual(200, self.ask(known, server).status)
                    self.assertEqual(200, self.ask(None, server, "/").status)
                    self.assertEqual(401, self.ask(None, server).status)
                    self.assertFalse(waiting.done())
                finally:
                    hold.let_go()
                # On a busy machine the real one may be too slow for some of them.
                self.assertLessEqual(set(waiting.result()), {401, 503})


class OwnToken(Gated):
    """The token by which the server itself is known to Keystone."""

    def test_it_is_refused_once(self):
        self.ask(self.new_token())
        logins = self.gate.logins
        with self.gate.behaving(refusing(set(self.gate.issued))):
            self.assertEqual(200, self.ask(self.new_token()).status)
            self.assertEqual(200, self.ask(self.new_token()).status)
        self.assertEqual(logins + 1, self.gate.logins)

    def test_it_is_revoked(self):
        self.ask(self.new_token())
        for token in self.gate.issued[-1:]:
            self.keystone.revoke(token)
        self.assertEqual(200, self.ask(self.new_token()).status)
        self.assertEqual(401, self.ask("made up after that").status)

    @beyond_the_reference("each of its threads gets one")
    def test_it_is_revoked_while_many_ask(self):
        with self.fresh("revoked", keystone_timeout=AMPLE_SECONDS) as server:
            self.assertEqual(200, self.ask(self.new_token(), server).status)
            tokens, logins = [self.new_token() for _ in range(20)], self.gate.logins
            self.keystone.revoke(self.gate.issued[-1])
            self.assertEqual({200}, set(self.ask_at_once(tokens, server)))
            self.assertEqual(logins + 1, self.gate.logins)

    def test_it_is_refused_again_and_again(self):
        token, logins = self.new_token(), self.gate.logins
        with self.gate.behaving(only("is_validation", answering(401, b"{}"))):
            self.unavailable(token)
        self.assertLessEqual(self.gate.logins, logins + 2)
        self.assertEqual(200, self.ask(token).status)

    def test_none_is_given_at_the_start(self):
        troubles = TROUBLES | {
            "401": answering(401, b'{"error": {"code": 401, "title": "Unauthorized", "message": ""}}'),
            "404": answering(404, b"<html>Not Found</html>"),
            "no header": answering(201, b'{"token": {"expires_at": "2100-01-01T00:00:00Z", "user": {}}}'),
        }
        # A token that comes late is there afterwards.
        del troubles["slow"]
        if self.scene.against_reference:
            troubles = {name: troubles[name] for name in ("500", "503")}
        with self.fresh("without-own-token") as server:
            for name, trouble in troubles.items():
                with self.subTest(name):
                    with self.gate.behaving(only("is_login", trouble)):
                        self.assertEqual(200, self.ask(None, server, "/").status)
                        self.assertEqual(401, self.ask(None, server).status)
                        self.unavailable(self.new_token(), server)
            self.assertEqual(200, self.ask(self.new_token(), server).status)

    def test_nobody_is_there_at_the_start(self):
        token = self.new_token()
        with self.gate.closed():
            with self.fresh("before-keystone") as server:
                self.assertEqual(200, self.ask(None, server, "/").status)
                self.assertEqual(401, self.ask(None, server).status)
                self.unavailable(token, server)
                self.gate.open()
                self.assertEqual(200, self.ask(token, server).status)

    @beyond_the_reference("it renews within the last 30 seconds, and each thread its own")
    def test_it_is_renewed_in_time(self):
        with self.gate.behaving(living(8)), self.fresh("renewing") as server:
            logins = self.gate.logins
            began = time.monotonic()
            while time.monotonic() - began < 8.5:
                self.assertEqual(200, self.ask(self.new_token(), server).status)
                if time.monotonic() - began < 3:
                    self.assertEqual(logins + 1, self.gate.logins)
                time.sleep(0.4)
            self.assertIn(self.gate.logins, (logins + 2, logins + 3))

    @beyond_the_reference("it fails")
    def test_it_is_used_to_its_end_when_none_other_is_given(self):
        with self.fresh("not-renewing", keystone_timeout=AMPLE_SECONDS) as server:
            first, token, last = (self.new_token() for _ in range(3))
            with self.gate.behaving(living(16)):
                self.assertEqual(200, self.ask(first, server).status)
            # In the last quarter of its life, another one is asked for.
            with self.gate.behaving(only("is_login", answering(500))):
                time.sleep(12)
                self.assertEqual(200, self.ask(token, server).status)
                self.assertEqual(200, self.ask(last, server).status)
                time.sleep(5)
                self.unavailable(self.new_token(), server)
            self.assertEqual(200, self.ask(self.new_token(), server).status)

    def test_whoever_may_not_ask_about_tokens_of_others(self):
        options = {"keystone_username": "reader", "keystone_project_name": "demo"}
        options["keystone_password"] = self.people.passwords["reader"]
        with self.fresh("as-a-reader", **options) as server:
            self.unavailable(self.new_token(), server)

    def test_a_wrong_password(self):
        with self.fresh("wrong-password", keystone_password=self.keystone.secret()) as server:
            self.assertEqual(200, self.ask(None, server, "/").status)
            self.unavailable(self.new_token(), server)


class Counted(Gated):
    """Keystone is asked no more than it must be."""

    def test_once_for_a_token(self):
        token = self.new_token()
        for _ in range(10):
            self.assertEqual(200, self.ask(token).status)
        self.assertEqual(1, self.gate.validations(token))

    @beyond_the_reference("each of its threads asks")
    def test_once_for_many_who_come_at_once(self):
        token = self.new_token()
        with self.gate.behaving(slow(0.5)):
            self.assertEqual([200] * TOGETHER, self.ask_at_once([token] * TOGETHER))
        self.assertEqual(1, self.gate.validations(token))

    @beyond_the_reference("each of its threads asks")
    def test_once_for_many_whose_token_is_bad(self):
        with self.gate.behaving(slow(0.5)):
            self.assertEqual([401] * TOGETHER, self.ask_at_once(["made up by many"] * TOGETHER))
        self.assertEqual(1, self.gate.validations("made up by many"))

    @beyond_the_reference("each of its threads gets a token of its own")
    def test_one_own_token_for_many_who_come_first(self):
        tokens, logins = [self.new_token() for _ in range(20)], self.gate.logins
        with self.fresh("many-first", keystone_timeout=AMPLE_SECONDS) as server:
            self.assertEqual({200}, set(self.ask_at_once(tokens, server)))
        self.assertEqual(logins + 1, self.gate.logins)
        self.assertEqual([1] * 20, [self.gate.validations(token) for token in tokens])

    @beyond_the_reference("it does not remember bad ones")
    def test_a_bad_token_is_remembered_shortly(self):
        token = "made up to be remembered"
        for _ in range(5):
            self.assertEqual(401, self.ask(token).status)
        self.assertEqual(1, self.gate.validations(token))
        deadline = time.monotonic() + 20
        while self.gate.validations(token) == 1 and time.monotonic() < deadline:
            time.sleep(0.25)
            self.assertEqual(401, self.ask(token).status)
        self.assertEqual(2, self.gate.validations(token), "it is never asked about again")

    def test_nothing_for_requests_without_token(self):
        before = len(self.gate.seen)
        self.ask(None)
        self.ask("")
        self.ask(None, path="/")
        self.ask(self.new_token(), path="/")
        self.assertEqual(before, len(self.gate.seen))

    def test_without_memory_each_request_asks(self):
        never = -1 if self.scene.against_reference else 0
        with self.fresh("forgetful", keystone_token_cache_time=never) as server:
            token = self.new_token()
            for _ in range(3):
                self.assertEqual(200, self.ask(token, server).status)
            self.assertEqual(3, self.gate.validations(token))
            self.keystone.revoke(token)
            self.assertEqual(401, self.ask(token, server).status)

    def test_the_catalog_is_not_asked_for(self):
        token = self.new_token()
        self.ask(token)
        if not self.scene.against_reference:
            seen = [seen for seen in self.gate.seen if seen.subject == token]
            self.assertIn("nocatalog", seen[0].path)
