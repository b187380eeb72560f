"""A Keystone that accepts every token, and that can hang or have a wrong clock.

Tokens end in 2099, those that begin with `for-an-hour` in an hour.
"""

import datetime
import email.utils
import http.server
import json
import threading
import time

TOKEN = {
    "token": {
        "methods": ["password"],
        "expires_at": "2099-01-01T00:00:00.000000Z",
        "issued_at": "2020-01-01T00:00:00.000000Z",
        "user": {"id": "berth", "name": "berth", "domain": {"id": "default", "name": "Default"}},
        "project": {"id": "service", "name": "service", "domain": {"id": "default", "name": "Default"}},
        "roles": [{"id": "admin", "name": "admin"}, {"id": "service", "name": "service"}],
        "catalog": [],
    }
}


class Keystone:
    def __init__(self):
        self.hangs = threading.Event()
        self.skew = 0
        keystone = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _respond(self, status):
                while keystone.hangs.is_set():
                    time.sleep(0.1)
                # `berth check` asks for a token that no Keystone has issued.
                if self.headers.get("X-Subject-Token", "").startswith("berth-check"):
                    status = 404
                token = TOKEN["token"]
                if self.headers.get("X-Subject-Token", "").startswith("for-an-hour"):
                    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
                    token = token | {"expires_at": end.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
                body = json.dumps({"token": token}).encode()
                self.send_response_only(status)
                self.send_header("Date", email.utils.formatdate(time.time() + keystone.skew, usegmt=True))
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("X-Subject-Token", "of-berth")
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self._respond(200)

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self._respond(201)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        # A client that no longer waits is no error.
        self._server.handle_error = lambda *_: None
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_exception):
        self.hangs.clear()
        self._server.shutdown()
        self._thread.join()

    def options(self):
        """The options of `berth serve` for it."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}/v3"
        return [
            "--auth=keystone", f"--keystone-auth-url={url}", "--keystone-username=berth", "--keystone-password=secret",
            "--keystone-project-name=service", "--keystone-user-domain-name=Default",
            "--keystone-project-domain-name=Default",
        ]  # fmt: skip
