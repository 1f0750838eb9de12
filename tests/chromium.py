"""Drives a headless Chromium over its debugging pipe: standard library only, no port, no network.

    with Browser() as browser:
        page = browser.open("file:///tmp/page.html", width=390, dark=True)
        page.evaluate("document.title")
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-extensions", "--hide-scrollbars", "--remote-debugging-pipe"]


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    def __init__(self, path=None):
        self.path = path or find_chromium()

    def __enter__(self):
        self.profile = tempfile.mkdtemp(prefix="etalon-chromium-")
        # Chromium reads commands on descriptor 3 and answers on 4, each message ended by a NUL.
        read_command, self.commands = os.pipe()
        self.answers, write_answer = os.pipe()

        def descriptors():
            high = [os.dup(read_command), os.dup(write_answer)]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i)

        self.process = subprocess.Popen(
            [self.path, *FLAGS, "--user-data-dir=" + self.profile, "about:blank"],
            preexec_fn=descriptors, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_command)
        os.close(write_answer)
        self.next_id, self.buffer, self.events = 0, b"", []
        return self

    def __exit__(self, *unused):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            if not select.select([self.answers], [], [], max(0.0, deadline - time.time()))[0]:
                raise RuntimeError("Chromium did not answer in time")
            data = os.read(self.answers, 1 << 20)
            if not data:
                raise RuntimeError("Chromium ended")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, params=None, session=None, patience=60):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        deadline = time.time() + patience
        while True:
            answer = self.receive(deadline)
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise RuntimeError("%s: %s" % (method, answer["error"].get("message")))
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def open(self, url, width=1280, height=900, dark=False, before=None):
        """`before` is run in the page before any script of its own."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        page = Page(self, target, session["sessionId"])
        page.call("Page.enable")
        page.call("Runtime.enable")
        page.call("Log.enable")
        page.call("Network.enable")
        page.call("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "deviceScaleFactor": 1,
                   "mobile": width < 600})
        page.call("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
        if before:
            page.call("Page.addScriptToEvaluateOnNewDocument", {"source": before})
        page.call("Page.navigate", {"url": url})
        page.wait("document.readyState === 'complete'")
        return page


class Page:
    def __init__(self, browser, target, session):
        self.browser, self.target, self.session = browser, target, session

    def call(self, method, params=None):
        return self.browser.call(method, params, self.session)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", {"expression": expression, "returnByValue": True,
                                                "awaitPromise": True})
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description"))
        return answer["result"].get("value")

    def wait(self, condition, patience=20):
        deadline = time.time() + patience
        while not self.evaluate(condition):
            if time.time() > deadline:
                raise RuntimeError("never came true: " + condition)
            time.sleep(0.05)

    def press(self, key, code=0):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", {
                "type": kind, "key": key, "windowsVirtualKeyCode": code,
                "text": "\r" if key == "Enter" and kind == "keyDown" else ""})

    def screenshot(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        data = self.call("Page.captureScreenshot", {
            "captureBeyondViewport": True,
            "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"],
                     "scale": 1}})["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def of_this_page(self, *methods):
        return [e["params"] for e in self.browser.events
                if e.get("sessionId") == self.session and e["method"] in methods]

    def errors(self):
        """Exceptions, console errors, and everything the log holds as an error."""
        found = [e["exceptionDetails"].get("exception", {}).get("description", "exception")
                 for e in self.of_this_page("Runtime.exceptionThrown")]
        found += [str(e["args"]) for e in self.of_this_page("Runtime.consoleAPICalled")
                  if e["type"] in ("error", "warning", "assert")]
        found += [e["entry"]["text"] for e in self.of_this_page("Log.entryAdded")
                  if e["entry"]["level"] in ("error", "warning")]
        return found

    def requests(self):
        return [e["request"]["url"] for e in self.of_this_page("Network.requestWillBeSent")]

    def close(self):
        self.browser.call("Target.closeTarget", {"targetId": self.target})
