"""Take the screenshot of the explorer in the documentation: python docs/explorer_screenshot.py RUN"""

from __future__ import annotations

import base64
import io
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).resolve().parent
LOADED = "[...document.querySelectorAll('.card img')].slice(0, 60).every((image) => image.complete)"


def main(run: str) -> None:
    sys.path.insert(0, str(DOCS.parent))
    from tests.browser import Browser, find_browser

    command = [sys.executable, "-m", "cgmcr2", "explore", run, "--no-browser"]
    program = find_browser()
    if program is None:
        sys.exit("Install Chromium first.")
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = re.search("http://.*", server.stdout.readline())
    assert address is not None
    browser = Browser(program, Path(tempfile.mkdtemp()))
    browser.open(address[0], width=1200, height=760)
    browser.until(LOADED)
    browser.settle()
    data = base64.b64decode(browser.send("Page.captureScreenshot")["data"])
    Image.open(io.BytesIO(data)).convert("RGB").save(DOCS / "_static" / "explorer.webp", quality=70, method=6)
    browser.close()
    server.send_signal(signal.SIGINT)
    server.wait()


if __name__ == "__main__":
    main(sys.argv[1])
