"""The console in Chromium: each page with 10 and with 100,000 hosts.

Run it by `tests/console/run`, which prepares the Python environment first. Each page is loaded without scripts, walked
through by keyboard, and checked by axe-core, light and dark, for faults that keep people from using it. `--pictures`
writes the pictures of docs/pictures again; without it, pages are compared with them.
"""

import argparse
import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

from harness import report
from harness.environment import REPOSITORY, TARGET
from harness.ports import free_port
from harness.postgres import Cluster
from harness.servers import find_berth, running
from PIL import Image, ImageChops, ImageStat
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

AXE = "4.10.3"
FOLDER = TARGET / "console"
PICTURES = REPOSITORY / "docs" / "pictures"
HOSTILE = "</title></a><script>document.title='taken'</script><b onmouseover=\"x\">&amp;'"
LARGE, RACKS = 100_000, 2_500
WINDOW = (1280, 900)
NARROW = {"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": False}
# The pages with a picture in docs/pictures.
PICTURED = {"large-cloud", "small-provider", "small-nothing"}
# The size to which pictures are reduced before they are compared, and the largest mean difference of a colour: fonts
# differ between machines, the layout does not.
REDUCED, DIFFERENCE_MAX = (64, 45), 24.0
BYTES_MAX = 200_000
DEMO_HOSTS = 2_000
STOP_MAX = 120


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", action="store_true", help="write docs/pictures/console-*.png again")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    checks = Checks(axe(), options.pictures)
    with Cluster() as cluster, browser() as driver:
        for cloud in (small, large):
            name = cloud.__name__
            cluster.create(name)
            url = cluster.url(name)
            subprocess.run([find_berth(), "db", "migrate", "--database-url", url], check=True, capture_output=True)
            if cloud is large:
                cluster.execute(LARGE_CLOUD, name)
            command = [find_berth(), "serve", "--ui", "--planner-listen", "none", "--database-url", url]
            listen = lambda port: ["--listen", f"127.0.0.1:{port}"]  # noqa: E731
            with running(f"console-{name}", command, listen, ready="/readyz") as server:
                for page, path in cloud(server.url).items():
                    checks.page(driver, server.url, f"{name}-{page}", path)
                checks.keyboard(driver, server.url)
    checks.demo()
    return report.finish(checks.passed, checks.failed, 0)


def send(url: str, method: str, path: str, body=None) -> tuple[dict, dict]:
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, headers, method=method)
    with urllib.request.urlopen(request) as response:
        text = response.read()
        return (json.loads(text) if text else {}), dict(response.headers)


def small(url: str) -> dict[str, str]:
    """Ten hosts in two racks, one of them with a hostile name and a GPU. Returns the pages."""

    def provider(name: str, inventories: dict, traits: list, parent: str | None = None) -> str:
        own = str(uuid.uuid5(uuid.NAMESPACE_OID, name))
        body = {"name": name, "uuid": own} | ({"parent_provider_uuid": parent} if parent else {})
        send(url, "POST", "/resource_providers", body)
        path = f"/resource_providers/{own}"
        inventories = {"resource_provider_generation": 0, "inventories": inventories}
        send(url, "PUT", f"{path}/inventories", inventories)
        send(url, "PUT", f"{path}/traits", {"resource_provider_generation": 1, "traits": traits})
        return own

    for trait in ("CUSTOM_RACK_R1", "CUSTOM_RACK_R2"):
        send(url, "PUT", f"/traits/{trait}")
    hosts = []
    for nth in range(10):
        inventories = {
            "VCPU": {"total": 32, "allocation_ratio": 4.0},
            "MEMORY_MB": {"total": 131072, "reserved": 8192},
            "DISK_GB": {"total": 2000},
        }
        traits = [f"CUSTOM_RACK_R{nth % 2 + 1}", "HW_CPU_X86_AVX2"]
        hosts.append(provider(HOSTILE if nth == 9 else f"host-{nth}", inventories, traits))
    provider("host-9 GPU", {"VGPU": {"total": 4}}, [], hosts[9])
    consumer = ""
    for nth, host in enumerate(hosts[:9]):
        for _ in range(nth):
            consumer = str(uuid.uuid4())
            allocations = {host: {"resources": {"VCPU": 16, "MEMORY_MB": 12000, "DISK_GB": 100}}}
            body = {"allocations": allocations, "consumer_generation": None, "consumer_type": "INSTANCE",
                    "project_id": HOSTILE, "user_id": "somebody"}  # fmt: skip
            send(url, "PUT", f"/allocations/{consumer}", body)
    nothing = "resources=VCPU:100,VGPU:1&required=CUSTOM_RACK_R1"
    _, headers = send(url, "GET", f"/allocation_candidates?{nothing}")
    quote = lambda text: urllib.parse.quote(text, safe="")  # noqa: E731
    return {
        "cloud": "/ui",
        "list": "/ui?view=list&order=fullest",
        "found": f"/ui?find={quote(HOSTILE)}",
        "provider": f"/ui/providers/{hosts[8]}",
        "hostile": f"/ui/providers/{hosts[9]}",
        "consumer": f"/ui/consumers/{consumer}",
        "project": f"/ui/projects/{quote(HOSTILE)}",
        "question": "/ui/why",
        "fits": "/ui/why?amount0=8&amount1=4096&required=HW_CPU_X86_AVX2",
        "nothing": f"/ui/why?query={quote(nothing)}",
        "kept": f"/ui/why?query={headers['x-openstack-request-id']}",
        "sign-in": "/ui/sign-in",
        "now": "/ui/now",
        "plans": "/ui/plans",
        "api": "/ui/api",
        "operation": "/ui/api/allocation_candidates_list",
        "missing": f"/ui/providers/{uuid.UUID(int=1)}",
    }


LARGE_CLOUD = f"""
insert into traits (id, name) select nextval('traits_id'), 'CUSTOM_RACK_R' || n from generate_series(1, {RACKS}) n;
insert into providers (id, uuid, name, root_id, generation) overriding system value
    select n, md5('host ' || n)::uuid, 'compute-' || lpad(n::text, 6, '0'), n, 1 from generate_series(1, {LARGE}) n;
insert into inventories
        (provider_id, class_id, total, reserved, min_unit, max_unit, step_size, allocation_ratio, used)
    select p.id, c.id, c.total, c.reserved, 1, c.total, 1, 1.0, (c.total - c.reserved) * (p.id * 7919 % 101) / 100
    from providers p
        cross join (select id, total, reserved from resource_classes
                        join (values ('VCPU', 64, 2), ('MEMORY_MB', 262144, 8192), ('DISK_GB', 4000, 0))
                            as s (name, total, reserved) using (name)) c;
insert into provider_traits (provider_id, trait_id)
    select p.id, t.id from providers p join traits t on t.name = 'CUSTOM_RACK_R' || (p.id % {RACKS} + 1);
select setval(pg_get_serial_sequence('providers', 'id'), {LARGE});
analyze;
"""


def large(_url: str) -> dict[str, str]:
    """100,000 hosts in 2,500 racks. Returns the pages."""
    return {
        "cloud": "/ui",
        "fullest": "/ui?order=fullest&class=MEMORY_MB",
        "list": "/ui?view=list&order=emptiest&page=1000",
        "found": "/ui?find=compute-0999",
        "rack": "/ui?by=rack&area=r7",
        "nothing": "/ui/why?amount0=63",
    }


def axe() -> str:
    """The source of axe-core, from npm."""
    file = FOLDER / f"axe-core-{AXE}.tgz"
    if not file.exists():
        subprocess.run(["npm", "pack", "--silent", f"axe-core@{AXE}"], cwd=FOLDER, check=True, capture_output=True)
    with tarfile.open(file) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()


@contextlib.contextmanager
def browser():
    options = webdriver.ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(option)
    options.add_argument(f"--window-size={WINDOW[0]},{WINDOW[1]}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    try:
        yield driver
    finally:
        driver.quit()


class Checks:
    """What passed, and what did not."""

    def __init__(self, axe_source: str, writes_pictures: bool) -> None:
        self.passed = 0
        self.failed = 0
        self._axe = axe_source
        self._writes_pictures = writes_pictures

    def check(self, is_so: bool, what: str) -> None:
        self.passed += is_so
        self.failed += not is_so
        if not is_so:
            print(f"FAIL  {what}", flush=True)

    def page(self, driver, url: str, name: str, path: str) -> None:
        """A page has no scripts, is small, has no faults for axe-core, and looks as in its picture."""
        began = time.monotonic()
        size = len(source(url + path))
        seconds = time.monotonic() - began
        print(f"{name}: {size:,} bytes in {seconds * 1000:.0f} ms", flush=True)
        driver.get(url + path)
        self.check(size < BYTES_MAX, f"{name}: {size} bytes")
        self.check(not driver.find_elements(By.CSS_SELECTOR, "script:not([src]), [style], [onmouseover]"), f"{name}: scripts")
        self.check(driver.title.endswith("· Berth"), f"{name}: the title {driver.title!r}")
        messages = [it["message"] for it in driver.get_log("browser") if "Content Security" in it["message"]]
        self.check(not messages, f"{name}: the browser says {messages}")
        self._width(driver, name)
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", NARROW)
        self._width(driver, f"{name} on a telephone")
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.execute_script(self._axe)
        for scheme in ("dark", "light"):
            self._axe_faults(driver, name, scheme)
        self._picture(driver, name)

    def _width(self, driver, name: str) -> None:
        width = driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
        self.check(width <= 0, f"{name}: {width} pixels too wide")

    def _axe_faults(self, driver, name: str, scheme: str) -> None:
        preferred = {"name": "prefers-color-scheme", "value": scheme}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [preferred]})
        # Resolves when axe has looked at the whole page.
        found = driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
        for fault in found["violations"]:
            where = [node["target"] for node in fault["nodes"][:3]]
            self.check(False, f"{name}, {scheme}: {fault['impact']}: {fault['help']}: {where}")
        self.check(not found["violations"], f"{name}, {scheme}: {len(found['violations'])} kinds of faults")

    def _picture(self, driver, name: str) -> None:
        picture = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
        file = PICTURES / f"console-{name}.png"
        if name not in PICTURED:
            return
        if self._writes_pictures:
            picture.quantize(64).save(file, optimize=True)
        else:
            difference = ImageChops.difference(picture.resize(REDUCED), Image.open(file).convert("RGB").resize(REDUCED))
            mean = sum(ImageStat.Stat(difference).mean) / 3
            picture.save(FOLDER / file.name)
            self.check(mean < DIFFERENCE_MAX, f"{name}: differs by {mean:.1f} from {file.name}; see {FOLDER}")

    def keyboard(self, driver, url: str) -> None:
        """The tab key reaches every link and field in order, and the enter key follows one."""
        driver.get(f"{url}/ui")
        seen = []
        for _ in range(40):
            driver.switch_to.active_element.send_keys(Keys.TAB)
            active = driver.switch_to.active_element
            outline = active.value_of_css_property("outline-style")
            self.check(outline != "none", f"keyboard: {active.get_attribute('outerHTML')[:80]} shows no focus")
            seen.append(active.get_attribute("href") or active.get_attribute("name"))
            if "/ui/providers/" in (seen[-1] or ""):
                break
            if (seen[-1] or "").endswith("#hosts"):
                active.send_keys(Keys.ENTER)
        self.check("find" in seen, f"keyboard: never at the field to find: {seen}")
        self.check("/ui/providers/" in (seen[-1] or ""), f"keyboard: never at a host: {seen}")
        driver.switch_to.active_element.send_keys(Keys.ENTER)
        self.check("/ui/providers/" in driver.current_url, f"keyboard: at {driver.current_url}")

    def demo(self) -> None:
        """`make demo` fills a cloud, names pages that show it, and leaves nothing after Ctrl-C."""
        url = f"http://127.0.0.1:{(port := free_port())}"
        command = [REPOSITORY / "tools" / "demo", "--berth", find_berth(), "--port", str(port)]
        # A group of its own, which gets the signal as a terminal sends it.
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        shown = ""
        for line in demo.stdout:
            shown += line
            if "Ctrl-C" in line:
                break
        links = re.findall(rf"{re.escape(url)}/ui\S*", shown)
        self.check(len(links) == 3, f"demo: the pages {links} in {shown[-2000:]!r}")
        cloud, found, why = (source(link).decode() for link in links)
        self.check(f"<b>{DEMO_HOSTS:,}</b> hosts" in cloud, "demo: the number of hosts")
        self.check("GPU" in found and "<b>0</b> hosts" not in found, "demo: no GPU host is found")
        self.check("<b>0</b> of" in why, "demo: a hopeless request fits")
        self.check('id="changes"' in (now := source(f"{url}/ui/now").decode()) and "created:" in now, "demo: no changes")
        os.killpg(demo.pid, signal.SIGINT)
        rest, _ = demo.communicate(timeout=STOP_MAX)
        self.check("Stopping." in rest, f"demo: it ended with {rest[-200:]!r}")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(demo.pid, 0)
            self.check(False, "demo: processes are left")
        with contextlib.suppress(ConnectionError, urllib.error.URLError):
            source(f"{url}/ui")
            self.check(False, "demo: the port is still open")


def source(url: str) -> bytes:
    """The page as it is sent."""
    request = urllib.request.Request(url, headers={"Accept": "text/html"})
    try:
        with urllib.request.urlopen(request) as response:
            return response.read()
    except urllib.error.HTTPError as error:
        return error.read()


if __name__ == "__main__":
    sys.exit(main())
