"""Read-only tests of the page, for simulated and real runs."""

import contextlib
import itertools
import xml.etree.ElementTree
from pathlib import Path

from driver import PHONE, Driver


class ReadOnlyTests(Driver):
    def curves(self, url):
        """Curves change with new events."""
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
        self.check(page.locator('[data-tile="step"] dd').first.inner_text() != step, "the step continues")
        self.check(page.title() != "cloze", "the title shows the progress", page.title())
        self.picture(page, "dark-top")
        self.picture(page, "dark-whole", whole=True)
        self.quiet(page)

    def looks(self, url):
        """Smoothing, logarithm, axes, zoom and hover change the drawing."""
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
        # The tick labels may be equal on both scales.
        paths = "all => all.map((path) => path.getAttribute('d')).join()"
        drawn = lambda key: page.locator(f'.plot[data-key="{key}"] path').evaluate_all(paths)
        plain = drawn("loss")
        page.locator('.plot[data-key="loss"] .tool', has_text="log").click()
        self.settled(page)
        self.check(drawn("loss") != plain, "a logarithmic scale draws another curve", labels("loss"))
        page.locator('.plot[data-key="loss"] .tool', has_text="log").click()
        for axis in ("tokens", "hours"):
            before = labels("loss")
            page.locator(f"[data-axis={axis}]").click()
            self.settled(page)
            self.check(labels("loss") != before, f"the axis of {axis} has its own ticks")
        page.locator("[data-axis=step]").click()
        self.settled(page)
        whole = window()
        self.drag(page, self.box(page, "loss"), (0.3, 0.5), (0.6, 0.52))
        part = window()
        self.check(whole[0] < part[0] < part[1] < whole[1], "a drag selects a range", part)
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
        plain = labels("loss")
        self.drag(page, self.box(page, "loss"), (0.5, 0.3), (0.505, 0.7))
        self.check(labels("loss") != plain and window()[0] == whole[0], "a vertical drag zooms only this plot")
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
            self.check("var(" not in text and len(text) > 500, f"the {kind} is self-contained", text[:100])
            parse(text)
        page.locator("#find-plot").fill("no plot has this name")
        self.settled(page)
        self.check(page.locator(".plot:visible").count() == 0, "plots can be searched")
        page.locator("#find-plot").fill("")
        self.quiet(page)

    def timeline(self, url):
        """The time line below the plots: selection, tooltips of its marks, and hidden kinds."""
        page = self.open(url)
        page.evaluate("document.querySelector('.plot[data-key=loss]').scrollIntoView()")
        self.drag(page, page.locator("#timeline svg").bounding_box(), (0.4, 0.4), (0.7, 0.4))
        self.check(page.evaluate("view.zoomed('run')"), "a drag on the time line selects a range")
        page.locator("#timeline svg").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Escape")
        self.check(not page.evaluate("view.zoomed('run')"), "Escape shows the whole run")
        marks = page.locator("#timeline path.event")
        if marks.count() == 0:
            print("  no event has a position yet: marks are not tested")
            return
        # Marks are rebuilt as the run continues, so one is measured within a single call.
        box = page.evaluate(
            "[...document.querySelectorAll('#timeline path.event')].at(-1).getBoundingClientRect().toJSON()"
        )
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(150)
        self.check(page.locator("#tip").is_visible(), "a mark shows its event")
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
        self.check(page.locator("#happened-list li").count() >= listed, "and return")
        page.locator("#happened-list .step:not([disabled])").first.click()
        self.settled(page)
        self.check(page.evaluate("view.cursor !== null"), "an event of the list shows its position in the plots")
        self.quiet(page)

    def contrasts(self, url):
        """All text has enough contrast in both color schemes; curves differ for color-blind users."""
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
            self.check(near[0] >= 9, f"curves differ for color-blind users in the {scheme} scheme", near)
            self.quiet(page)
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        for _ in range(2):
            page.locator("#theme").click()
        self.check(
            page.evaluate("getComputedStyle(document.body).backgroundColor") != before, "the switch changes the face"
        )

    def phone(self, url):
        """At 390 pixels nothing overflows horizontally, and touch targets are large enough."""
        page = self.open(url, size=PHONE, scheme="light", has_touch=True, is_mobile=True)
        if page.locator("#show-rows").is_visible():
            page.locator("#show-rows").click()
            page.wait_for_timeout(300)
        page.evaluate("scrollTo(0, 0)")
        self.picture(page, "phone-top")
        self.picture(page, "phone-whole", whole=True)
        # A phone widens its window for overflowing content, so the width is compared with the expected one.
        wide = self.probe(page, "wide", PHONE["width"])
        self.check(not wide, "nothing overflows horizontally", wide[:6])
        small = self.probe(page, "small")
        self.check(not small, "touch targets are 24 pixels high", small[:6])
        box = self.box(page, "loss")
        page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        self.quiet(page)

    def keyboard(self, url):
        """The tab key reaches everything, and the focus is visible."""
        page = self.open(url)
        if page.locator("#show-rows").is_visible():
            page.locator("#show-rows").click()
            page.wait_for_timeout(300)
        self.probe(page, "expect_focus")
        for _ in range(1500):
            page.keyboard.press("Tab")
            # After the last element the focus starts over.
            if self.probe(page, "focused"):
                break
        missed, dim = self.probe(page, "missed")
        self.check(not missed, "the tab key reaches everything", missed[:8])
        self.check(not dim, "the focus is visible everywhere", dim[:5])
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
            self.check(page.locator("#tip").is_visible(), "a focused token shows its original")
            page.keyboard.press("ArrowRight")
            self.check(
                page.evaluate("document.activeElement.classList.contains('token')"), "arrow keys go to the next one"
            )
            self.picture(page, "dark-token")
        page.keyboard.press("Escape")
        self.quiet(page)

    def sheet(self, url):
        """Popups stay within the window, at widths with unfavorable line breaks."""
        for width in (1400, 1250, 900):
            page = self.open(url, size={"width": width, "height": 800})
            page.locator(".picker summary").click()
            page.wait_for_timeout(300)
            inside = "document.documentElement.scrollWidth <= innerWidth"
            self.check(page.evaluate(inside), f"the list of runs opens within {width} pixels")
            box = page.locator(".sheet").bounding_box()
            self.check(box["x"] >= 0 and box["x"] + box["width"] <= width, "it is completely visible", box)
            self.quiet(page)

    def address(self, url):
        """The address contains the view and restores it."""
        page = self.open(url)
        page.locator("[data-axis=tokens]").click()
        page.locator("#smoothing").fill("0.6")
        self.drag(page, self.box(page, "loss"), (0.3, 0.5), (0.6, 0.52))
        part = page.evaluate("view.window('run')")
        self.until(page, "location.hash.includes('axis=tokens') && location.hash.includes('from=')")
        page.locator("nav a", has_text="events").click()
        self.check("axis=tokens" in page.evaluate("location.hash"), "a link within the page keeps the address")
        again = self.open(page.url)
        self.settled(again)
        got = again.evaluate("[view.axis, view.smoothing, ...view.window('run')]")
        self.check(got == ["tokens", 0.6, *part], "the address restores the view", got)
        again.locator("#smoothing").fill("0")
        again.locator("[data-axis=step]").click()
        again.locator("#toolbar .strong").click()
        self.until(again, "location.hash === ''")
        self.quiet(again)

    def motion(self, url):
        """With reduced motion, nothing is animated."""
        page = self.open(url, reduced_motion="reduce")
        page.wait_for_timeout(2500)
        self.check(page.evaluate("document.getAnimations().length") == 0, "no animation with reduced motion")

    # Tests of the page of a preparation.

    def spread(self, url):
        """The curves of a preparation are drawn over time."""
        page = self.open(url, wait=False)
        self.until(page, "view.run?.groups.preparation.length >= 5", seconds=60)
        page.wait_for_selector('.plot[data-key="share"] path.curve')
        self.check("preparation" in page.locator("#kind").inner_text(), "a preparation is labelled")
        hours = page.evaluate("view.run.groups.preparation.axes.hours")
        self.check(hours[-1] > hours[0] and len(set(hours)) >= 4, "its points are at their times", hours[:6])
        self.settled(page)
        box = "document.querySelector('.plot[data-key=share] path.curve').getBBox().width"
        self.check(page.evaluate(box) > 100, "its curves spread along the plot", page.evaluate(box))
        self.check(not page.locator("#controls").is_visible(), "unavailable controls are hidden")
        self.check("busy" in page.locator("#verdict").inner_text(), "its workers show their state")
        before = page.evaluate("view.run.groups.preparation.length")
        self.until(page, "before => view.run.groups.preparation.length > before", before, seconds=60)
        self.check(page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it does not overflow")
        self.picture(page, "prepare", whole=True)
        self.quiet(page)


def blind_nearest(colours):
    """Returns the two most similar colors for color-blind vision, and their distance in Lab."""
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
