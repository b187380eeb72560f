"""Signing in to the console with tokens and passwords of Keystone."""

import unittest
import urllib.parse

from exchange import Answer, ask
from scene import Case


class SignIn(Case):
    @classmethod
    def setUpClass(cls):
        if cls.scene.against_reference:
            raise unittest.SkipTest("the reference has no console")

    def page(self, path: str, cookie: str | None = None) -> Answer:
        return ask(self.scene.server("console").url + path, headers={"Cookie": cookie} if cookie else {})

    def sign_in(self, **fields: str) -> Answer:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        body = urllib.parse.urlencode(fields).encode()
        return ask(f"{self.scene.server('console').url}/ui/sign-in", "POST", headers=headers, body=body)

    def cookie_of(self, answer: Answer) -> str:
        self.assertEqual(answer.status, 303, answer.body)
        cookie, *attributes = answer.headers["Set-Cookie"].split("; ")
        self.assertEqual(attributes, ["Path=/ui", "HttpOnly", "SameSite=Lax"])
        return cookie

    def test_without_a_token_there_is_a_form(self):
        answer = self.page("/ui/why?amount0=1")
        self.assertEqual(answer.status, 401)
        self.assertIn(b'name="password"', answer.body)
        self.assertIn(b'name="next" value="/ui/why?amount0=1"', answer.body)
        self.assertEqual(self.page("/ui", "berth_token=made-up").status, 401)

    def test_a_password_in_a_project(self):
        fields = {"user": "operator", "project": "admin", "next": "/ui/why"}
        answer = self.sign_in(password=self.people.passwords["operator"], **fields)
        self.assertEqual(answer.headers["Location"], "/ui/why")
        self.assertEqual(self.page("/ui", self.cookie_of(answer)).status, 200)

    def test_what_keystone_does_not_accept(self):
        password = self.people.passwords["operator"]
        for wrong in (
            {"user": "operator", "password": "not-that-one", "project": "admin"},
            {"user": "operator", "password": password, "project": "elsewhere"},
            {"user": "operator", "password": password, "user_domain": "none", "project": "admin"},
        ):
            answer = self.sign_in(**wrong)
            self.assertEqual(answer.status, 401, wrong)
            self.assertIn(b"Keystone does not accept", answer.body)
            self.assertNotIn("Set-Cookie", answer.headers)
        self.assertEqual(self.sign_in(password=password).status, 400)

    def test_a_token(self):
        cookie = self.cookie_of(self.sign_in(token=self.people.token("operator", "admin")))
        self.assertEqual(self.page("/ui", cookie).status, 200)

    def test_the_policy_applies(self):
        password = self.people.passwords["reader"]
        cookie = self.cookie_of(self.sign_in(user="reader", password=password, project="demo"))
        answer = self.page("/ui", cookie)
        self.assertEqual(answer.status, 403)
        self.assertIn(b"berth:providers:list", answer.body)
