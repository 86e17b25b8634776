#!/usr/bin/env python3
"""Drives the live page in Chromium, as a hand would, and says what does not hold.

How to run it. It needs Chromium and a font (`apt-get install chromium fonts-dejavu`), and `playwright` of PyPI, in a venv of
its own: `python3 -m venv venv && venv/bin/pip install playwright` (its browsers are not needed). Then

    venv/bin/python tests/page/drive.py                         # against servers that play runs (mock.py)
    venv/bin/python tests/page/drive.py --url http://127.0.0.1:8765/    # what applies to a real one; it changes nothing
    venv/bin/python tests/page/drive.py --only phone,keyboard --pictures pictures

writes screenshots into a folder and ends with 0 if everything holds, with 1 and a line for each thing that does not. Without
Chromium it says `SKIPPED: …` and ends with 0.
"""

import argparse
import contextlib
import itertools
import shutil
import sys
import tempfile
import time
import xml.etree.ElementTree
from pathlib import Path

import mock

DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# What is read off the page by a script of its own, in the page.
PROBES = (Path(__file__).parent / "probes.js").read_text()


class Drive:
    def __init__(self, browser, pictures, url):
        self.browser, self.pictures, self.url = browser, pictures, url
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
        """A page that may say nothing on its console, ask nothing by dialogs, and load nothing from elsewhere."""
        context = self.browser.new_context(viewport=size, color_scheme=scheme, accept_downloads=True, **more)
        context.set_default_timeout(8000)
        self.contexts.append(context)
        page = context.new_page()
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.said.append(f"error: {error}"))
        page.on("dialog", lambda one: (page.said.append(f"dialog: {one.message}"), one.dismiss()))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(url)
        if wait:
            page.wait_for_selector("#connection.live")
            # A plot is drawn when it comes into sight; on a phone it lies below.
            self.until(page, "document.querySelector('.plot[data-key=loss]')")
            page.evaluate("document.querySelector('.plot[data-key=loss]').scrollIntoView()")
            self.until(page, "document.querySelector('.plot[data-key=loss] path.curve')?.getAttribute('d')")
            page.evaluate("scrollTo(0, 0)")
        return page

    def until(self, page, holds, arg=None, seconds=10):
        """Waits for something of the page. (The page's policy forbids what Playwright's own way of waiting does in it.)"""
        end = time.monotonic() + seconds
        while not (found := page.evaluate(holds, arg)):
            if time.monotonic() > end:
                raise TimeoutError(f"`{holds}` within {seconds} s")
            page.wait_for_timeout(50)
        return found

    def probe(self, page, name, *values):
        """What one of probes.js finds."""
        return page.evaluate(f"(values) => {{ {PROBES}; return {name}(...values); }}", list(values))

    def settled(self, page):
        """After two frames, what was asked for is drawn."""
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def picture(self, page, name, whole=False):
        if whole:
            self.see_all(page)
        page.screenshot(path=self.pictures / f"{name}.png", full_page=whole)

    def see_all(self, page):
        """Plots are drawn when they come into sight."""
        height = page.evaluate("document.documentElement.scrollHeight")
        for top in range(0, height, 600):
            page.evaluate(f"scrollTo(0, {top})")
            page.wait_for_timeout(30)
        page.evaluate("scrollTo(0, 0)")
        self.settled(page)

    def quiet(self, page, but=()):
        loud = [line for line in page.said if not any(word in line for word in but)]
        self.check(not loud, "the console is silent, and no dialog came", loud[:5])
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

    # What a live page does.

    def curves(self, url):
        """Curves move as events come."""
        page = self.open(url)
        line = lambda: page.locator('.plot[data-key="loss"] path.curve').first.get_attribute("d")
        before, step = line(), page.locator('[data-tile="step"] dd').first.inner_text()
        with contextlib.suppress(Exception):
            self.until(
                page,
                "before => document.querySelector('.plot[data-key=loss] path.curve').getAttribute('d') !== before",
                before,
            )
        self.check(line() != before, "the curve of the loss moves with new events")
        with contextlib.suppress(TimeoutError):
            self.until(page, "step => document.querySelector('[data-tile=step] dd').innerText !== step", step)
        self.check(page.locator('[data-tile="step"] dd').first.inner_text() != step, "the step goes on")
        self.check(page.title() != "cloze", "the title says how far the run is", page.title())
        self.picture(page, "dark-top")
        self.picture(page, "dark-whole", whole=True)
        self.quiet(page)

    def looks(self, url):
        """Smoothing, logarithm, axes, zoom, hover: each changes what is drawn."""
        page = self.open(url, scheme="light")
        labels = lambda key: page.locator(f'.plot[data-key="{key}"] .labels').first.text_content()
        window = lambda: page.evaluate("view.window('run')")
        smooth = lambda weight: page.locator("#smoothing").fill(str(weight))
        smooth(0.9)
        self.settled(page)
        self.check(
            page.locator('.plot[data-key="loss"] path.raw').count() == 1, "smoothing keeps the raw curve, faintly"
        )
        self.picture(page, "light-smoothed")
        smooth(0)
        # Ticks alone may be the same on both scales.
        drawn = lambda key: page.locator(f'.plot[data-key="{key}"] path').evaluate_all("all => all.map(path => path.getAttribute(\"d\")).join()")
        plain = drawn("loss")
        page.locator('.plot[data-key="loss"] .tool', has_text="log").click()
        self.settled(page)
        self.check(drawn("loss") != plain, "a logarithmic scale draws another curve", labels("loss"))
        page.locator('.plot[data-key="loss"] .tool', has_text="log").click()
        for axis in ("tokens", "hours"):
            before = labels("loss")
            page.locator(f"[data-axis={axis}]").click()
            self.settled(page)
            self.check(labels("loss") != before, f"the axis of {axis} has ticks of its own")
        page.locator("[data-axis=step]").click()
        self.settled(page)
        whole = window()
        self.drag(page, self.box(page, "loss"), (0.3, 0.5), (0.6, 0.52))
        part = window()
        self.check(whole[0] < part[0] < part[1] < whole[1], "a drag chooses a part", part)
        self.picture(page, "light-zoomed")
        others = page.evaluate(
            "[...document.querySelectorAll('.plot .labels')].filter((e) => e.childElementCount).length"
        )
        self.check(
            others > 1 and page.locator("#toolbar .strong:not(.gone)").is_visible(),
            "all plots go along, and the way back is shown",
        )
        page.locator('.plot[data-key="loss"] svg.chart').dblclick(position={"x": 200, "y": 90})
        self.settled(page)
        self.check(window()[0] == whole[0], "a double click shows the whole run", window())
        # Ticks alone may be the same on both scales.
        drawn = lambda key: page.locator(f'.plot[data-key="{key}"] path').evaluate_all("all => all.map(path => path.getAttribute(\"d\")).join()")
        plain = drawn("loss")
        self.drag(page, self.box(page, "loss"), (0.5, 0.3), (0.505, 0.7))
        self.check(labels("loss") != plain and window()[0] == whole[0], "a drag up or down zooms this plot alone")
        page.locator('.plot[data-key="loss"] svg.chart').focus()
        page.keyboard.press("+")
        self.settled(page)
        self.check(window() != whole, "a key zooms", window())
        page.keyboard.press("0")
        self.settled(page)
        self.check(not page.evaluate("view.zoomed('run')"), "a key shows the whole run")
        box = self.box(page, "loss")
        before = page.locator('.plot[data-key="loss"] .value').first.inner_text()
        page.mouse.move(box["x"] + box["width"] * 0.15, box["y"] + box["height"] / 2)
        self.settled(page)
        self.check(page.locator('.plot[data-key="loss"] .value').first.inner_text() != before, "a hover shows values")
        hairs = page.locator(".plot .hair").count()
        self.check(hairs >= min(2, page.locator(".plot:not([hidden])").count()), "the crosshair is in all plots", hairs)
        self.picture(page, "light-hover")
        for kind, parse in (
            ("SVG", lambda text: xml.etree.ElementTree.fromstring(text)),
            ("CSV", lambda text: text.splitlines()[0].index("step")),
        ):
            with page.expect_download() as kept:
                page.locator('.plot[data-key="loss"] .tool', has_text=kind).click()
            text = Path(kept.value.path()).read_text()
            if kind == "SVG":
                (self.pictures / "kept-loss.svg").write_text(text)
            self.check("var(" not in text and len(text) > 500, f"the {kind} stands by itself", text[:100])
            parse(text)
        page.locator("#find-plot").fill("no plot has this name")
        self.settled(page)
        self.check(page.locator(".plot:visible").count() == 0, "plots can be looked for")
        page.locator("#find-plot").fill("")
        self.quiet(page)

    def timeline(self, url):
        """The line below the plots: it chooses, its marks tell, kinds can be hidden."""
        page = self.open(url)
        page.evaluate("document.querySelector('.plot[data-key=loss]').scrollIntoView()")
        self.drag(page, page.locator("#timeline svg").bounding_box(), (0.4, 0.4), (0.7, 0.4))
        self.check(page.evaluate("view.zoomed('run')"), "a drag on the time line chooses a part")
        page.locator("#timeline svg").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Escape")
        self.check(not page.evaluate("view.zoomed('run')"), "Escape shows the whole run")
        marks = page.locator("#timeline path.event")
        if marks.count() == 0:
            print("  no event has a place yet: marks are not tried")
            return
        # Marks are made anew as the run goes on: one is measured in one breath.
        box = page.evaluate(
            "[...document.querySelectorAll('#timeline path.event')].at(-1).getBoundingClientRect().toJSON()"
        )
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(150)
        self.check(page.locator("#tip").is_visible(), "a mark tells what happened")
        self.picture(page, "dark-timeline")
        page.mouse.move(5, 5)
        kind = page.locator("#happened-kinds .chip").first.get_attribute("data-kind")
        listed = page.locator("#happened-list li").count()
        for chip in page.locator("#happened-kinds .chip").all():
            chip.click()
        self.settled(page)
        self.check(page.locator("#timeline path.event").count() == 0, "marks of hidden kinds are gone", kind)
        for chip in page.locator("#happened-kinds .chip").all():
            chip.click()
        self.settled(page)
        self.check(page.locator("#happened-list li").count() >= listed, "and come again")
        page.locator("#happened-list .step:not([disabled])").first.click()
        self.settled(page)
        self.check(page.evaluate("view.cursor !== null"), "an event of the list shows its place in the plots")
        self.quiet(page)

    def contrasts(self, url):
        """All text can be read, in both faces; curves differ for colour-blind eyes."""
        for scheme in ("dark", "light"):
            page = self.open(url, scheme=scheme)
            self.see_all(page)
            for id in ("show-rows",):
                if page.locator(f"#{id}").is_visible():
                    page.locator(f"#{id}").click()
                    page.wait_for_timeout(300)
            page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true })")
            page.wait_for_timeout(300)
            seen, poor = self.probe(page, "contrasts")
            self.check(
                seen > 40 and not poor, f"each of {seen} texts has a contrast of 4.5 in the {scheme} face", poor[:8]
            )
            near = blind_nearest(self.probe(page, "palette"))
            self.check(near[0] >= 9, f"curves differ for every eye in the {scheme} face", near)
            self.quiet(page)
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        for _ in range(2):
            page.locator("#theme").click()
        self.check(
            page.evaluate("getComputedStyle(document.body).backgroundColor") != before, "the switch changes the face"
        )

    def phone(self, url):
        """At 390 pixels nothing has to be scrolled sideways, and a thumb hits what it means."""
        page = self.open(url, size=PHONE, scheme="light", has_touch=True, is_mobile=True)
        if page.locator("#show-rows").is_visible():
            page.locator("#show-rows").click()
            page.wait_for_timeout(300)
        page.evaluate("scrollTo(0, 0)")
        self.picture(page, "phone-top")
        self.picture(page, "phone-whole", whole=True)
        # A phone widens its window for what overflows, so the width is compared with the one that it should have.
        wide = self.probe(page, "wide", PHONE["width"])
        self.check(not wide, "nothing overflows sideways", wide[:6])
        small = self.probe(page, "small")
        self.check(not small, "whatever can be pressed is 24 pixels high", small[:6])
        box = self.box(page, "loss")
        page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self.quiet(page)

    def keyboard(self, url):
        """The tab key reaches everything, and one sees where one is."""
        page = self.open(url)
        if page.locator("#show-rows").is_visible():
            page.locator("#show-rows").click()
            page.wait_for_timeout(300)
        self.probe(page, "expect_focus")
        for _ in range(1500):
            page.keyboard.press("Tab")
            # Behind the last one the page begins again.
            if self.probe(page, "focused"):
                break
        missed, dim = self.probe(page, "missed")
        self.check(not missed, "the tab key reaches everything", missed[:8])
        self.check(not dim, "the focus is seen everywhere", dim[:5])
        page.locator('.plot[data-key="loss"] svg.chart').focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(600)
        self.check(
            "loss" in page.locator('.plot[data-key="loss"] svg.chart').get_attribute("aria-label"),
            "a plot says what it shows",
        )
        self.check(
            page.locator("#live").inner_text() != "",
            "values are said to who listens",
            page.locator("#live").inner_text(),
        )
        token = page.locator('.token[tabindex="0"]').first
        if token.count() > 0:
            token.focus()
            self.settled(page)
            self.check(page.locator("#tip").is_visible(), "a token under the keyboard's focus shows what it was")
            page.keyboard.press("ArrowRight")
            self.check(
                page.evaluate("document.activeElement.classList.contains('token')"), "arrow keys go to the next one"
            )
            self.picture(page, "dark-token")
        page.keyboard.press("Escape")
        self.quiet(page)

    def motion(self, url):
        """Who wants nothing to move sees nothing move."""
        page = self.open(url, reduced_motion="reduce")
        page.wait_for_timeout(2500)
        self.check(page.evaluate("document.getAnimations().length") == 0, "nothing moves where nothing should")

    # What needs a server that plays along.

    def overlay(self, _):
        server = self.serve()
        page = self.open(server.url)
        page.locator(".picker summary").click()
        page.wait_for_selector(".pick")
        self.check(page.locator(".pick").count() == 2, "runs beside this one are offered")
        for box in page.locator(".pick input").all():
            box.check()
        self.until(page, "view.runs.length === 3")
        self.settled(page)
        page.wait_for_timeout(200)
        self.check(page.locator('.plot[data-key="loss"] path.curve').count() == 3, "three runs have three curves")
        self.check(page.locator("#runs .chip").count() == 3, "each has a chip")
        page.locator(".picker summary").click()
        self.picture(page, "dark-overlay")
        page.locator("#runs .chip").nth(1).click()
        self.settled(page)
        self.check(page.locator('.plot[data-key="loss"] path.curve').count() == 2, "a chip hides a run")
        page.locator("#runs .quiet").first.click()
        self.settled(page)
        self.check(page.evaluate("view.runs.length") == 2, "a run can be taken away")
        self.quiet(page)

    def hostile(self, _):
        server = self.serve()
        page = self.open(server.url)
        page.locator("#show-rows").click()
        page.locator("#all-keys").check()
        page.wait_for_timeout(500)
        text = page.evaluate("document.body.textContent")
        self.check("<img src=x onerror=" in text, "hostile texts are shown as texts")
        self.check(page.locator("img, main script, iframe, object").count() == 0, "no element comes of a text")
        self.check("owned" not in page.title(), "no script came of a text", page.title())
        self.check("\u202e" not in text, "signs that turn a line around are made visible")
        self.check(all(url.startswith((server.url, "blob:")) for url in page.asked), "nothing is asked of anybody else")
        self.quiet(page)

    def controls(self, _):
        server = self.serve()
        page = self.open(server.url)
        page.wait_for_selector("#controls:not([hidden])")
        page.locator("#note").fill(f"a note {mock.HOSTILE}")
        page.locator('[data-action="note"]').click()
        page.locator("#token").fill("wrong")
        page.locator("dialog .strong").click()
        self.until(page, "document.querySelector('#dialog').textContent.includes('token.')")
        self.picture(page, "dark-token-asked")
        page.locator("#token").fill(mock.TOKEN)
        page.locator("dialog .strong").click()
        self.until(page, "document.querySelector('.answer').textContent === 'noted'")
        self.check([path for path, _ in server.posts] == ["/note"], "a note is written once", server.posts)
        self.until(page, "document.querySelector('#happened-list li').textContent.includes('a note')")
        self.check(
            page.evaluate("Object.keys(localStorage).every((key) => !key.includes('token'))"),
            "the token stays in its tab",
        )
        page.locator('[data-action="stop"]').click()
        self.picture(page, "dark-stop")
        page.keyboard.press("Escape")
        page.wait_for_timeout(200)
        self.check(len(server.posts) == 1, "a stop that is not confirmed stops nothing")
        page.locator('[data-action="stop"]').click()
        page.locator("dialog .grave").click()
        self.until(page, "document.querySelector('.answer').textContent.includes('will stop')")
        page.locator("#level").fill("debug")
        page.locator('[data-action="log-level"]').click()
        page.locator('[data-action="checkpoint"]').click()
        self.until(page, "document.querySelector('.answer').textContent.includes('checkpoint')")
        self.check(
            sorted(path for path, _ in server.posts) == ["/checkpoint", "/log-level", "/note", "/stop"],
            "each control does what it says",
        )
        self.picture(page, "dark-controls")
        self.quiet(page, but=("401",))

    def reconnect(self, _):
        server = self.serve(steps=300)
        page = self.open(server.url)
        page.evaluate("window.same = true")
        server.kill()
        page.wait_for_selector("#connection.lost")
        page.wait_for_timeout(2500)
        words = page.locator("#connection").inner_text()
        self.check("trying again" in words or "connecting" in words, "the page says that it is alone", words)
        self.picture(page, "dark-lost")
        boot = page.evaluate("page.feed.boot")
        again = self.serve(steps=400, port=server.port)
        page.wait_for_selector("#connection.live", timeout=25_000)
        self.until(page, "boot => page.feed.boot !== boot", boot)
        self.until(page, "view.run.groups.reports.axes.step.at(-1) >= 4010")
        self.check(page.evaluate("window.same === true"), "it goes on without being loaded again")
        steps = page.evaluate("view.run.groups.reports.axes.step")
        self.check(all(a < b for a, b in itertools.pairwise(steps)), "no step is there twice")
        # A server that takes no more streams for a while is asked again.
        again.limited = True
        again.cut()
        page.wait_for_selector("#connection.lost")
        page.wait_for_timeout(1500)
        again.limited = False
        page.wait_for_selector("#connection.live", timeout=25_000)
        # The same process: what was missed comes by its numbers.
        last = page.evaluate("page.feed.last")
        self.until(page, "last => page.feed.last > last", last)
        steps = page.evaluate("view.run.groups.reports.axes.step")
        self.check(all(b - a == 10 for a, b in itertools.pairwise(steps[-40:])), "no step was missed", steps[-5:])
        self.quiet(page, but=("ERR_", "503"))

    def resets(self, _):
        """A server that never agrees is not asked without end."""
        server = self.serve(steps=20)
        server.resets = True
        page = self.open(server.url, wait=False)
        page.wait_for_timeout(4000)
        self.check(2 <= server.histories <= 7, "resets are followed, and not in a hurry", server.histories)
        server.resets = False
        page.wait_for_selector("#connection.live", timeout=20_000)
        self.quiet(page)

    def odd(self, _):
        """What no server should say breaks nothing."""
        server = mock.Server(mock.Odd(), rate=3)
        self.servers.append(server)
        for size in (DESKTOP, PHONE):
            page = self.open(server.url, size=size, wait=False)
            page.wait_for_selector("#connection.live")
            page.wait_for_timeout(2500)
            self.check(page.locator(".plot").count() >= 40, "what can be drawn is drawn", page.locator(".plot").count())
            wide = self.probe(page, "wide", size["width"])
            self.check(not wide, "names without end overflow nothing", wide[:5])
            self.picture(page, f"odd-{size['width']}", whole=True)
            self.quiet(page)

    def rollback(self, _):
        """A run that goes back says its steps again: none is there twice, and none is left of what was undone."""
        server = self.serve(steps=300, rate=0)
        page = self.open(server.url)
        play = server.play
        play.step = 2000
        play.tell(play.event("change", how="rollback", message="back to step 2000", **{"from": 3000}))
        self.until(page, "view.run.groups.reports.axes.step.at(-1) === 2000")
        self.check(page.evaluate("view.run.groups.validations.axes.step.at(-1)") == 2000, "validations are undone too")
        for _ in range(3):
            play.advance()
        self.until(page, "view.run.groups.reports.axes.step.at(-1) === 2030")
        steps = page.evaluate("view.run.groups.reports.axes.step")
        self.check(all(b - a == 10 for a, b in itertools.pairwise(steps)), "each step is there once", steps[-5:])
        self.check(page.evaluate("view.run.groups.reports.axes.hours").count(None) == 0, "each has its hours")
        self.quiet(page)

    def much(self, _):
        """Ten thousand events: how long, and how much stays."""
        server = self.serve(rate=0)
        page = self.open(server.url)
        probe = page.context.new_cdp_session(page)

        def heap():
            probe.send("HeapProfiler.collectGarbage")
            return page.evaluate("performance.memory.usedJSHeapSize")

        self.probe(page, "add", 10_000)
        before = heap()
        took = self.probe(page, "add", 10_000)
        after = heap()
        points, events = page.evaluate("[view.run.groups.reports.length, view.run.events.length]")
        print(f"  10,000 events: {took:.0f} ms, {points} points, {events} events kept")
        print(f"  {before / 1e6:.1f} MB before them, {after / 1e6:.1f} MB behind them")
        self.check(took < 4000, "ten thousand events are taken in soon", took)
        self.check(points <= 4096 and events <= 1000, "columns and lists have bounds", (points, events))
        self.check(after < before * 1.15 + 2e6, "memory does not grow", (before, after))
        page.wait_for_timeout(400)
        frame = self.probe(page, "drawing")
        print(f"  drawing: plots {frame[0]} ms, crosshair {frame[1]} ms, time line {frame[2]} ms")
        self.check(frame[0] < 150 and frame[1] < 40, "drawing is fluid", frame)
        self.picture(page, "dark-much")
        self.quiet(page)

    def preparation(self, _):
        server = self.serve(kind="prepare", steps=250)
        page = self.open(server.url, wait=False)
        page.wait_for_selector('.plot[data-key="share"] path.curve')
        self.check("preparation" in page.locator("#kind").inner_text(), "a preparation says what it is")
        page.wait_for_selector("#flow:not([hidden])")
        self.picture(page, "dark-prepare", whole=True)
        server.play.end()
        page.wait_for_selector("#prepared:not([hidden])")
        self.check("tokens" in page.locator("#prepared").inner_text(), "its end has figures")
        seen, poor = self.probe(page, "contrasts")
        self.check(not poor, f"its {seen} texts can be read", poor[:5])
        self.picture(page, "dark-prepared", whole=True)
        self.quiet(page)

    def report(self, _):
        path = Path(tempfile.mkdtemp()) / "report.html"
        path.write_text(mock.assemble(mock.report())[0])
        for size, scheme, name in ((DESKTOP, "light", "report"), (PHONE, "dark", "report-phone")):
            page = self.open(path.as_uri(), size=size, scheme=scheme, wait=False)
            page.wait_for_selector('.plot[data-key="loss"] path.curve')
            self.check(
                page.locator('.plot[data-key="loss"] path.curve').count() == 3,
                "a report lays its runs over one another",
            )
            self.check(page.asked == [path.as_uri()], "a report loads nothing", page.asked)
            self.check(
                "differ between the runs" in page.locator("#configuration").inner_text(),
                "it says in which keys they differ",
            )
            self.check(not page.locator("#controls").is_visible(), "it controls nothing")
            self.check(page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it does not overflow")
            self.picture(page, name, whole=True)
            self.quiet(page)

    def empty(self, _):
        server = self.serve(steps=0, rate=0)
        page = self.open(server.url, wait=False)
        page.wait_for_selector("#connection.live")
        self.check(page.locator("#curves-empty").is_visible(), "an empty run says that nothing has come")
        self.check(
            "Nothing has happened" in page.locator("#happened-list").inner_text(), "and that nothing has happened"
        )
        self.picture(page, "dark-empty")
        server.rate = 5
        page.wait_for_selector('.plot[data-key="loss"] path.curve')
        self.check(not page.locator("#curves-empty").is_visible(), "its first values bring their plots")
        self.quiet(page)


ANYWHERE = ["curves", "looks", "timeline", "contrasts", "phone", "keyboard", "motion"]
PLAYED = [
    "overlay",
    "hostile",
    "controls",
    "reconnect",
    "resets",
    "odd",
    "rollback",
    "much",
    "preparation",
    "report",
    "empty",
]


def blind_nearest(colours):
    """The two colours that look most alike to eyes without the one or the other cone, and their distance in Lab."""
    linear = lambda v: v / 255 / 12.92 if v / 255 <= 0.04045 else ((v / 255 + 0.055) / 1.055) ** 2.4
    # Machado, Oliveira and Fernandes 2009, severity 1: protanopia, deuteranopia, tritanopia; and none.
    eyes = {
        "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
        "all": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    }
    times = lambda matrix, v: [sum(a * b for a, b in zip(row, v)) for row in matrix]

    def lab(rgb):
        x, y, z = times([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]], rgb)
        f = lambda t: max(t, 0) ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116
        x, y, z = f(x / 0.95047), f(y), f(z / 1.08883)
        return 116 * y - 16, 500 * (x - y), 200 * (y - z)

    near = []
    for eye, matrix in eyes.items():
        seen = [lab(times(matrix, [linear(v) for v in colour])) for colour in colours]
        for (i, a), (k, b) in itertools.combinations(enumerate(seen), 2):
            near.append((round(sum((p - q) ** 2 for p, q in zip(a, b)) ** 0.5, 1), eye, i, k))
    return min(near)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--url", help="a server that serves the page; without one, runs are played")
    parser.add_argument("--only", help=f"of {','.join(ANYWHERE + PLAYED)}")
    parser.add_argument("--pictures", type=Path, help="a folder for screenshots; default: a new one")
    asked = parser.parse_args()
    if CHROMIUM is None:
        print("SKIPPED: no Chromium here, so nobody has looked at the page (`apt-get install chromium`)")
        return 0
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print(
            "error: no `playwright` here: `python3 -m venv venv && venv/bin/pip install playwright`, and run this with it"
        )
        return 2
    pictures = asked.pictures or Path(tempfile.mkdtemp(prefix="cloze-page-"))
    pictures.mkdir(parents=True, exist_ok=True)
    names = ANYWHERE if asked.url else ANYWHERE + PLAYED
    if asked.only:
        names = [name for name in names if name in asked.only.split(",")]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--enable-precise-memory-info"]
        )
        drive = Drive(browser, pictures, asked.url)
        for name in names:
            start = time.monotonic()
            print(name, flush=True)
            try:
                getattr(drive, name)(asked.url or (drive.serve().url if name in ANYWHERE else None))
            except (
                Exception
            ) as problem:  # What a page does not come to is a failure of that part, not the end of the drive.
                drive.check(False, f"{name} comes to its end", str(problem).splitlines()[:6])
            drive.close()
            print(f"  {time.monotonic() - start:.1f} s", flush=True)
        browser.close()
    print(f"{drive.checks} checks, {len(drive.failures)} failed; pictures in {pictures}")
    for failure in drive.failures:
        print(f"  {failure}")
    return 1 if drive.failures else 0


if __name__ == "__main__":
    sys.exit(main())
