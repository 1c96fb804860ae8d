"""Headless Chromium for the tests of the page, driven through its debugging pipe."""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

TIMEOUT = 60  # seconds; only reached if the browser hangs

KEYS = {
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    "Tab": (9, ""),
    "Home": (36, ""),
}


class Browser:
    """Chromium with one tab, controlled by the DevTools protocol over two pipes; needs no driver and no port."""

    def __init__(self, program: str, profile: Path) -> None:
        to_child, self._out = os.pipe()
        self._in, from_child = os.pipe()
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-unsafe-swiftshader",  # WebGL without a GPU
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--remote-debugging-pipe",  # reads from file descriptor 3, writes to 4
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
        self._buffer = b""
        self._session: str | None = None
        self.problems: list[str] = []  # exceptions, console errors, blocked and failed requests
        targets = self.send("Target.getTargets")["targetInfos"]
        tab = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        self._session = None
        self.send("Browser.close")
        self._process.wait(TIMEOUT)
        os.close(self._in)
        os.close(self._out)

    def send(self, method: str, **parameters: Any) -> Any:
        """Call a protocol method and return its result."""
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
            self._record(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._in], [], [], TIMEOUT)[0], f"the browser has not answered for {TIMEOUT} s"
            chunk = os.read(self._in, 2**20)
            assert chunk, "the browser has exited"
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _record(self, event: dict[str, Any]) -> None:
        values = event.get("params", {})
        if "GPU stall due to ReadPixels" in str(values):  # by the screen of a browser without a GPU
            return
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(values["exceptionDetails"]))
        if event.get("method") == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning"):
            self.problems.append(str(values["args"]))
        if event.get("method") == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.problems.append(values["entry"]["text"])

    def open(self, page: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a file or URL in a window of this size and wait until it is loaded and drawn."""
        self.problems.clear()
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send(
            "Emulation.setEmulatedMedia", features=[scheme, {"name": "prefers-reduced-motion", "value": "reduce"}]
        )
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)
        self.until("document.readyState === 'complete' && window.app?.ready")
        self.settle()

    def run(self, script: str) -> Any:
        """Evaluate a JavaScript expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (script, answer["exceptionDetails"])
        return answer["result"].get("value")

    def settle(self) -> None:
        """Wait until two frames have been drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def until(self, script: str) -> None:
        """Poll until a JavaScript expression is true."""
        end = time.monotonic() + TIMEOUT
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < end, f"not true after {TIMEOUT} s: {script}"
            time.sleep(0.02)

    def until_problem(self, text: str) -> None:
        """Poll until a problem that contains ``text`` is reported."""
        end = time.monotonic() + TIMEOUT
        while not any(text in problem for problem in self.problems):
            assert time.monotonic() < end, f"not reported after {TIMEOUT} s: {text}"
            self.settle()

    def press(self, key: str, *, ctrl: bool = False, shift: bool = False) -> None:
        """Press and release a key."""
        code, text = KEYS.get(key, (ord(key.upper()[0]), key))
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 2 * ctrl + 8 * shift}
        text = "" if ctrl else text
        self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)
        self.settle()

    def type(self, text: str) -> None:
        """Insert text into the focused element."""
        self.send("Input.insertText", text=text)
        self.settle()

    def point(self, x: float, y: float, *, click: bool = False) -> None:
        """Move the mouse to a position in the window, and click there on request."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
        self.settle()

    def drag(self, path: list[tuple[float, float]]) -> None:
        """Press the mouse at the first position, move it along the others, and release it."""
        (x, y), *rest = path
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.send("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", buttons=1, clickCount=1)
        for x, y in rest:
            self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self.send("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", buttons=0, clickCount=1)
        self.settle()

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of the first element that matches the selector."""
        name = json.dumps(selector)
        script = f"(b => [b.x, b.y, b.width, b.height])(document.querySelector({name}).getBoundingClientRect())"
        return tuple(self.run(script))

    def click(self, selector: str) -> None:
        """Scroll to the first element that matches the selector and click its centre."""
        name = json.dumps(selector)
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({name}); e.scrollIntoView({{block: 'center'}});"
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.point(x, y, click=True)


def find_browser() -> str | None:
    """The program, or None if it is not installed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
