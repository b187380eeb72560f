"""A Prometheus with the alert rules of deploy/prometheus."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from harness.environment import REPOSITORY
from harness.ports import free_port

RULES = REPOSITORY / "deploy/prometheus/berth.rules.yml"


def skip(why):
    print(f"NOT TESTED: {why}", file=sys.stderr)
    sys.exit(77)


def until(what, within, ask):
    """Wait for something, and return how long that took."""
    began = time.monotonic()
    while True:
        if ask():
            return time.monotonic() - began
        if time.monotonic() - began > within:
            raise AssertionError(f"not within {within} s: {what}")
        time.sleep(1)


class Prometheus:
    """A Prometheus that reads one replica. With `patience`, alerts fire after that time instead of their own."""

    def __init__(self, folder, admin, interval="5s", patience=None):
        self._port = free_port()
        rules = RULES.read_text()
        if patience:
            rules = re.sub(r"^( +for:) \d+[sm]$", rf"\1 {patience}", rules, flags=re.MULTILINE)
        (folder / "rules.yml").write_text(rules)
        targets = [{"targets": [admin]}]
        configuration = {
            "global": {"scrape_interval": interval, "scrape_timeout": "1s", "evaluation_interval": interval},
            "rule_files": [str(folder / "rules.yml")],
            "scrape_configs": [
                {"job_name": "berth", "static_configs": targets},
                {"job_name": "berth-cloud", "metrics_path": "/metrics/cloud", "static_configs": targets},
            ],
        }
        # JSON is YAML.
        (folder / "prometheus.yml").write_text(json.dumps(configuration))
        program = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
        if not program:
            skip("there is no prometheus: apt-get install prometheus")
        command = [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        command += [f"--web.listen-address=127.0.0.1:{self._port}", "--log.level=warn"]
        self._log = open(folder / "prometheus.log", "w")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self._process.terminate()
        self._process.wait(60)

    def reads(self, admin):
        """Whether it has read a replica more than once."""
        query = urllib.parse.urlencode({"query": f'count_over_time(berth_ready{{instance="{admin}"}}[1m]) > 1'})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/query?{query}", timeout=5) as answer:
                return json.load(answer)["data"]["result"] != []
        except (urllib.error.URLError, OSError):
            return False

    def firing(self, severity=None):
        """The names of the alerts that fire, of a severity or of all."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/alerts", timeout=5) as answer:
                alerts = json.load(answer)["data"]["alerts"]
        except (urllib.error.URLError, OSError):
            return set()
        firing = [alert["labels"] for alert in alerts if alert["state"] == "firing"]
        return {labels["alertname"] for labels in firing if severity in (None, labels["severity"])}
