"""No secret is ever said aloud: not in the log at any level, not in an error. To be run last."""

import re

from scene import Case, beyond_the_reference

ANY_TOKEN = re.compile(r"gAAAAA[\w-]{16,}")


class Leaks(Case):
    def secrets(self) -> set[str]:
        return self.keystone.secrets | set(self.scene.gate.issued)

    @beyond_the_reference("it is Berth's log that is looked at")
    def test_logs(self):
        self.scene.server("present")
        logs = self.scene.source.logs
        self.assertTrue(logs)
        faults = []
        for log in logs:
            with open(log, errors="replace") as lines:
                faults += [f"{log.name}: {line[:300]}" for line in lines if self.gives_away(line)]
        self.assertEqual("", "\n".join(faults[:20]))

    @beyond_the_reference("it is Berth's log that is looked at")
    def test_the_log_is_one_that_could_give_something_away(self):
        self.scene.server("present")
        text = "".join(log.read_text(errors="replace") for log in self.scene.source.logs)
        self.assertIn("TRACE", text)
        self.assertNotIn("panicked", text)

    @beyond_the_reference("it is Berth's configuration")
    def test_errors_in_the_configuration(self):
        secret = self.keystone.secret()
        good = f'auth = "keystone"\nkeystone-password = "{secret}"\n'
        url = 'keystone-auth-url = "http://127.0.0.1:1"\n'
        file = self.scene.folder / "wrong.toml"
        for text in (
            good,
            good + url,
            good + 'keystone-auth-url = "not a url"\n',
            good + f'keystone-auth-url = "http://berth:{secret}@127.0.0.1:1"\n',
            good + url + 'keystone-password-file = "/nowhere"\n',
            good + url + 'keystone-timeout = "soon"\n',
            f'auth = "keystone"\n{url}keystone-password = "{secret}\n',
            f'auth = "keystone"\n{url}keystone-passwort = "{secret}"\n',
            f'auth = "keystone"\n{url}keystone-password = ["{secret}"]\n',
            f'auth = "keystone"\n{url}keystone-password = {secret}\n',
        ):
            with self.subTest(text.replace(secret, "SECRET")):
                file.write_text(text)
                # Nothing can be served there, in case that the configuration is thought to be right.
                done = self.scene.source.run("serve", "--config", file, "--database-url", "postgres://127.0.0.1:1/x", "--database-wait", "0")
                self.assertNotEqual(0, done.returncode)
                self.assertNotIn(secret, done.stdout + done.stderr)

    @beyond_the_reference("it is Berth's configuration")
    def test_the_environment(self):
        secret = self.keystone.secret()
        environment = {
            "BERTH_KEYSTONE_PASSWORD": secret,
            "BERTH_KEYSTONE_APPLICATION_CREDENTIAL_SECRET": secret,
        }
        for arguments in (["serve", "--help"], ["serve", "--no-such-option"], ["config", "sample"]):
            done = self.scene.source.run(*arguments, **environment)
            self.assertNotIn(secret, done.stdout + done.stderr, arguments)

    def gives_away(self, line: str) -> bool:
        return bool(ANY_TOKEN.search(line)) or any(secret in line for secret in self.secrets())
