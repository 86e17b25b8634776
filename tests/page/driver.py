"""Shared parts of the page tests: opens pages, starts mock servers, moves the mouse, and collects failures."""

import contextlib
import time
from pathlib import Path

import mock

DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}

# Values that the page's own script reports.
PROBES = (Path(__file__).parent / "probes.js").read_text()


class Driver:
    """A browser, its servers, and the failed checks."""

    def __init__(self, browser, pictures, url, own_page=False):
        self.browser, self.pictures, self.url, self.own_page = browser, pictures, url, own_page
        self.failures, self.checks = [], 0
        self.contexts = []
        self.servers = []

    def check(self, holds, words, found=""):
        self.checks += 1
        if not holds:
            self.failures.append(f"{words}{f': {found}' if found != '' else ''}")
            print(f"  FAILED {self.failures[-1]}", flush=True)

    def serve(self, kind="train", steps=1500, rate=3.0, port=0):
        server = mock.Server(mock.play_of(kind, steps), port, rate)
        self.servers.append(server)
        return server

    def open(self, url, size=DESKTOP, scheme="dark", wait=True, **more):
        """A page without console output, dialogs, and requests to other hosts."""
        context = self.browser.new_context(viewport=size, color_scheme=scheme, accept_downloads=True, **more)
        context.set_default_timeout(8000)
        self.contexts.append(context)
        page = context.new_page()
        if self.own_page:
            page.route(lambda asked: asked.split("#")[0] == self.url, self.fulfil)
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.said.append(f"error: {error}"))
        page.on("dialog", lambda one: (page.said.append(f"dialog: {one.message}"), one.dismiss()))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(url)
        if wait:
            page.wait_for_selector("#connection.live")
            # A plot is drawn when it becomes visible; on a phone it is further down.
            self.until(page, "document.querySelector('.plot[data-key=loss]')")
            page.evaluate("document.querySelector('.plot[data-key=loss]').scrollIntoView()")
            self.until(page, "document.querySelector('.plot[data-key=loss] path.curve')?.getAttribute('d')")
            page.evaluate("scrollTo(0, 0)")
        return page

    def fulfil(self, route):
        """The page of this checkout, instead of the page that the program contains."""
        text, policy = mock.assemble()
        headers = {"content-type": "text/html; charset=utf-8", "content-security-policy": policy}
        route.fulfill(body=text, headers=headers)

    def until(self, page, holds, arg=None, seconds=10):
        """Waits for a condition. (The page's policy forbids the code that Playwright injects for waiting.)"""
        end = time.monotonic() + seconds
        while not (found := page.evaluate(holds, arg)):
            if time.monotonic() > end:
                raise TimeoutError(f"`{holds}` within {seconds} s")
            page.wait_for_timeout(50)
        return found

    def probe(self, page, name, *values):
        """Result of a function of probes.js."""
        return page.evaluate(f"(values) => {{ {PROBES}; return {name}(...values); }}", list(values))

    def settled(self, page):
        """Waits two frames, after which pending drawing is done."""
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def picture(self, page, name, whole=False):
        if whole:
            self.see_all(page)
        page.screenshot(path=self.pictures / f"{name}.png", full_page=whole)

    def see_all(self, page):
        """Scrolls through the page, since plots are drawn when they become visible."""
        height = page.evaluate("document.documentElement.scrollHeight")
        for top in range(0, height, 600):
            page.evaluate(f"scrollTo(0, {top})")
            page.wait_for_timeout(30)
        page.evaluate("scrollTo(0, 0)")
        self.settled(page)

    def quiet(self, page, but=()):
        loud = [line for line in page.said if not any(word in line for word in but)]
        self.check(not loud, "no console output and no dialog", loud[:5])
        page.said.clear()

    def close(self):
        for context in self.contexts:
            with contextlib.suppress(Exception):
                context.close()
        for server in self.servers:
            if server.alive:
                server.kill()
        self.contexts, self.servers = [], []

    def box(self, page, key):
        svg = page.locator(f'.plot[data-key="{key}"] svg.chart')
        svg.scroll_into_view_if_needed()
        # The time line covers the lower edge of the window.
        page.evaluate(
            "key => document.querySelector(`.plot[data-key='${key}']`).scrollIntoView({ block: 'center' })", key
        )
        self.settled(page)
        return svg.bounding_box()

    def drag(self, page, box, start, end):
        at = lambda place: (box["x"] + box["width"] * place[0], box["y"] + box["height"] * place[1])
        page.mouse.move(*at(start))
        page.mouse.down()
        page.mouse.move(*at(((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)), steps=4)
        page.mouse.move(*at(end), steps=4)
        page.mouse.up()
        self.settled(page)
