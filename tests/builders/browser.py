"""A real browser for tests: headless Chromium, spoken to in the DevTools protocol over a pipe, offline."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from waiting import HANG_S

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "chrome-headless-shell")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--remote-debugging-pipe", "about:blank",
)  # fmt: skip


def find_browser() -> str | None:
    """Path of a Chromium: $DLRMBENCH_TEST_BROWSER, else the first known name on PATH."""
    given = os.environ.get("DLRMBENCH_TEST_BROWSER")
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One browser process; `tab` opens pages in it."""

    def __init__(self, executable: str, profile: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        os.set_blocking(self._in, False)

        def place_pipes() -> None:
            # Copies above the target numbers first, so that neither pipe is overwritten before it is placed.
            a, b = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self._process = subprocess.Popen(
            [executable, *_FLAGS, f"--user-data-dir={profile}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=place_pipes,
            close_fds=False,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._next = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send one command and wait for its answer; what happens meanwhile is kept in `events`."""
        self._next += 1
        message = {"id": self._next, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._out, json.dumps(message).encode() + b"\0")
        for answer in self._messages():
            if answer.get("id") == self._next:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)
        raise TimeoutError(f"{method}: no answer within {HANG_S} s")

    def wait_for(self, method: str) -> None:
        if any(event.get("method") == method for event in self.events):
            return
        for event in self._messages():
            self.events.append(event)
            if event.get("method") == method:
                return
        raise TimeoutError(f"{method} did not happen within {HANG_S} s")

    def _messages(self) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline:
            while b"\0" in self._buffer:
                text, _, self._buffer = self._buffer.partition(b"\0")
                yield json.loads(text)
            try:
                read = os.read(self._in, 1 << 20)
            except BlockingIOError:
                time.sleep(0.005)
            else:
                assert read, "the browser has ended"
                self._buffer += read

    @contextmanager
    def tab(
        self,
        url: str,
        *,
        width: int = 1280,
        height: int = 1000,
        features: Sequence[tuple[str, str]] = (),
        media: str = "",
        scripts: bool = True,
    ) -> Iterator["Tab"]:
        """Load `url` and wait until it is there. `features` are media features such as a dark colour scheme."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable", session)
        self.call(
            "Emulation.setDeviceMetricsOverride",
            session,
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        emulated = [{"name": name, "value": value} for name, value in features]
        self.call("Emulation.setEmulatedMedia", session, media=media, features=emulated)
        self.call("Emulation.setScriptExecutionDisabled", session, value=not scripts)
        self.events.clear()
        self.call("Page.navigate", session, url=url)
        self.wait_for("Page.loadEventFired")
        yield Tab(browser=self, session=session)
        self.call("Target.closeTarget", targetId=target)


class Tab:
    """One loaded page."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser, self.session = browser, session

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        done = self.browser.call(
            "Runtime.evaluate", self.session, expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def count(self, selector: str) -> int:
        """Number of elements, counted by the browser rather than by a script of the page."""
        root = self.browser.call("DOM.getDocument", self.session)["root"]["nodeId"]
        found = self.browser.call("DOM.querySelectorAll", self.session, nodeId=root, selector=selector)
        return len(found["nodeIds"])

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.browser.call(
                "Input.dispatchKeyEvent",
                self.session,
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **text,
            )

    def requests(self) -> list[str]:
        return [
            event["params"]["request"]["url"]
            for event in self.browser.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """Errors and warnings of console, log and scripts."""
        found = []
        for event in self.browser.events:
            params = event.get("params", {})
            if event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif event.get("method") == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"]["text"])
            elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(str(params["args"]))
        return found
