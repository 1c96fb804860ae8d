"""A real browser for the tests of the page: Chromium without a window, driven through its debugging pipe."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

KEYS = {
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    "Tab": (9, ""),
}


class Browser:
    """One Chromium with one tab. Speaks the DevTools protocol over two pipes: no driver and no port is needed."""

    def __init__(self, program: str, profile: Path) -> None:
        to_child, self._out = os.pipe()
        self._in, from_child = os.pipe()
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--remote-debugging-pipe",  # reads file 3, writes file 4
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{to_child} 4>&{from_child}', program, *options],
            pass_fds=(to_child, from_child),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session: str | None = None
        self.problems: list[str] = []  # exceptions, console errors, blocked or failed loads
        targets = self.send("Target.getTargets")["targetInfos"]
        tab = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        self._session = None
        self.send("Browser.close")
        self._process.wait(20)
        os.close(self._in)
        os.close(self._out)

    def send(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and wait for its answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._note(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._in], [], [], 60)[0], "the browser has not answered for a minute"
            chunk = os.read(self._in, 2**20)
            assert chunk, "the browser has gone"
            self._rest += chunk
        message, self._rest = self._rest.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        values = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(values["exceptionDetails"]))
        if event.get("method") == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning"):
            self.problems.append(str(values["args"]))
        if event.get("method") == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.problems.append(values["entry"]["text"])

    def open(
        self, page: Path, *, width: int = 1280, height: int = 900, dark: bool = False, touch: bool = False
    ) -> None:
        """Show a file, in a window of this size, once it is loaded and drawn."""
        self.problems.clear()
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send(
            "Emulation.setEmulatedMedia", features=[scheme, {"name": "prefers-reduced-motion", "value": "reduce"}]
        )
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=page.as_uri())
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")
        self.settle()

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (script, answer["exceptionDetails"])
        return answer["result"].get("value")

    def settle(self) -> None:
        """Wait until two frames have been drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def until(self, script: str, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < end, f"never became true: {script}"
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """Press a key as a person does."""
        code, text = KEYS.get(key, (ord(key.upper()[0]), key))
        common = {"key": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)
        self.settle()

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)
        self.settle()

    def point(self, x: float, y: float, *, click: bool = False) -> None:
        """Move the mouse to a place of the window, and click there if asked to."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
        self.settle()

    def click(self, selector: str) -> None:
        """Scroll to the first element that the selector finds and click in its middle."""
        name = json.dumps(selector)
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({name}); e.scrollIntoView({{block: 'center'}});"
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.point(x, y, click=True)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        image = self.send("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(image))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium; the test is skipped where there is none."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium is installed (Debian: apt install chromium)")
    chromium = Browser(program, tmp_path_factory.mktemp("profile"))
    yield chromium
    chromium.close()


OpenPage = Callable[..., None]
