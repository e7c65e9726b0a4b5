"""A headless Chromium (Debian's package `chromium`) by its own protocol: pages, pictures, and what a script sees."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

__all__ = ["Chromium", "find_chromium"]

_START_S = 30.0
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
    "--hide-scrollbars",
    "--no-first-run",
)


def find_chromium() -> str | None:
    """The program, or None where it is not installed."""
    return shutil.which("chromium")


class Chromium:
    """One window of a browser. A context manager: it ends the browser and removes its profile."""

    def __init__(self) -> None:
        self._profile = Path(tempfile.mkdtemp(prefix="lakecore-chromium-"))
        program = find_chromium()
        if program is None:
            raise RuntimeError("chromium is not installed: apt-get install chromium")
        self._process = subprocess.Popen(
            [program, *_ARGUMENTS, f"--user-data-dir={self._profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._numbers = itertools.count(1)
        self._socket = connect(self._address(), max_size=None, compression=None)
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def _address(self) -> str:
        port_file = self._profile / "DevToolsActivePort"
        until = time.monotonic() + _START_S
        while not (port_file.exists() and port_file.read_text().count("\n")):
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError("chromium did not start")
            time.sleep(0.05)
        port = port_file.read_text().split("\n")[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            targets = json.load(answer)
        return str(next(one["webSocketDebuggerUrl"] for one in targets if one["type"] == "page"))

    def send(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv(timeout=60))
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def cookie(self, url: str, name: str, value: str) -> None:
        self.send("Network.setCookie", url=url, name=name, value=value)

    def look(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """How wide the window is, and whether the person likes dark pages."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Open a page and wait until it is complete."""
        self.send("Page.navigate", url=url)
        until = time.monotonic() + 30
        while (
            self.run("document.readyState + location.href") != f"complete{url}" and time.monotonic() < until
        ):
            time.sleep(0.05)
            if self.run("document.readyState") == "complete" and self.run("location.href") != "about:blank":
                return

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return found["result"].get("value")

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Store a PNG of the page, or of what the window shows of it."""
        shot = self.send(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole)
        )
        path.write_bytes(base64.b64decode(shot["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        return {
            "clip": {"x": 0, "y": 0, "width": size["width"], "height": min(4000, size["height"]), "scale": 1}
        }

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(30)
        shutil.rmtree(self._profile, ignore_errors=True)
