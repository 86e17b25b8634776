"""Tests that need the mock server: several runs, tokens, failing servers, and invalid responses."""

import itertools
import tempfile
from pathlib import Path

import mock
import simulated_run
from driver import DESKTOP, PHONE, Driver
from mock_responses import Odd


class MockTests(Driver):
    def overlay(self, _):
        server = self.serve()
        page = self.open(server.url)
        page.locator(".picker summary").click()
        page.wait_for_selector(".pick")
        self.check(page.locator(".pick").count() == 2, "other runs in the folder are listed")
        for box in page.locator(".pick input").all():
            box.check()
        self.until(page, "view.runs.length === 3")
        self.settled(page)
        page.wait_for_timeout(200)
        self.check(page.locator('.plot[data-key="loss"] path.curve').count() == 3, "three runs have three curves")
        self.check(page.locator("#runs .chip").count() == 3, "each has a chip")
        self.check(page.locator(".tiles-of").count() == 3, "each has a row of metrics")
        names = set(page.locator("#happened-list .of-run").all_inner_texts())
        self.check(page.locator("#timeline .of-run").count() > 3, "marks on the time line are of a run")
        self.check(len(names) >= 1, "events name their run", names)
        self.picture(page, "dark-overlay", whole=True)
        # The comparison is in the address, and a server that has no time at once is waited for.
        self.until(page, "location.hash.includes('runs=taco-2')")
        server.occupied = 3
        again = self.open(page.url)
        self.until(again, "view.runs.length === 3", seconds=20)
        self.check(server.occupied == 0, "a busy server is asked again")
        again.reload()
        self.until(again, "view.runs.length === 3", seconds=20)
        self.quiet(again, but=("503",))
        # A run that does not train has sent all its events.
        server.slow.clear()
        page.evaluate("page.overlay.refresh()")
        page.wait_for_timeout(500)
        self.check(server.slow == ["/runs"], "ended runs are not requested again", server.slow)
        server.state = "training"
        page.evaluate("page.overlay.refresh()")
        self.until(page, "view.runs[2].state === 'training'")
        page.wait_for_timeout(500)
        self.check(len(server.slow) == 4, "running runs are requested again", server.slow)
        page.locator("#runs .chip").nth(1).click()
        self.settled(page)
        self.check(page.locator('.plot[data-key="loss"] path.curve').count() == 2, "a chip hides a run")
        self.check(page.locator(".tiles-of").count() == 2, "its figures go with it")
        page.locator("#runs .quiet").first.click()
        self.settled(page)
        self.check(page.evaluate("view.runs.length") == 2, "a run can be taken away")
        self.quiet(page)

    def lately(self, _):
        """The bottleneck text describes the last minute, not the whole run."""
        server = self.serve()
        page = self.open(server.url)
        verdict = lambda: page.locator("#verdict").inner_text()
        self.until(page, "document.querySelector('#verdict').textContent.includes('over the last')")
        self.check("The trainer is the bottleneck" in verdict(), "a run limited by its trainer is described so", verdict())
        rows = page.locator("#flow-picture .actor").count()
        server.play.starves = True
        self.until(
            page, "document.querySelector('#verdict').textContent.includes('workers are the bottleneck')", seconds=15
        )
        self.check("waited for batches" in verdict(), "a run that starves now is described so", verdict())
        server.play.validates = True
        page.wait_for_selector("#flow-validation:not([hidden])")
        self.check(page.locator("#flow-picture .actor").count() == rows, "each worker is listed once")
        self.check(page.locator("#flow-validation h3").inner_text() == "validation", "workers of a validation are labelled")
        titles = page.locator("#flow-picture .actor").evaluate_all("all => all.map((one) => one.title)")
        self.check(any("batch-reader" in title for title in titles), "the trainer's thread name is shown too", titles)
        self.picture(page, "dark-validation")
        server.play.validates = False
        page.wait_for_selector("#flow-validation", state="hidden")
        # Another process restarts the counts.
        server.play.instance = "another"
        self.until(page, "view.looks.length === 1")
        self.quiet(page)

    def ranks(self, _):
        """Ranks are listed with the slowest marked; a single process has none."""
        server = self.serve()
        page = self.open(server.url)
        self.until(page, "document.querySelector('#curves-empty').hidden")
        self.check(page.locator("#ranks").is_hidden(), "a single process has no table of ranks")
        for slowest, waits in [(1, [0.3, 0.01, 0.28]), (0, [0.0, 0.2, 0.25])]:
            server.play.ranks = waits
            self.until(page, f"document.querySelectorAll('#ranks tbody tr')[{slowest}]?.textContent.endsWith('slowest')")
            rows = page.locator("#ranks tbody tr").all_inner_texts()
            self.check(len(rows) == 3 and "41.2 ms" in rows[0], "each rank has a row", rows)
            self.check(sum("slowest" in row for row in rows) == 1, "the rank that waits least is the slowest", rows)
        self.quiet(page)

    def unplanned(self, _):
        server = self.serve()
        server.play.phase = "start"
        page = self.open(server.url)
        said = page.locator("#configuration .empty")
        self.until(page, "document.querySelector('#configuration .empty').textContent.includes('not planned yet')")
        self.check("/config" not in server.slow, "a run without a plan is not asked for its configuration")
        server.play.phase = "step"
        self.until(
            page, "document.querySelector('#configuration .empty').textContent.includes('differ from')", seconds=15
        )
        self.check(server.slow.count("/config") == 1, "it is requested with the plan", said.inner_text())
        self.quiet(page)

    def references(self, _):
        """Equal reference losses are drawn as one line, different ones as one line per run."""
        page = self.report_page(DESKTOP, "light")
        plot = page.locator('.plot[data-key="mlm/loss"]')
        plot.scroll_into_view_if_needed()
        self.settled(page)
        words = plot.locator(".legend .label").all_inner_texts()
        self.check(words.count("best without context") == 1, "a reference that all share is named once", words)
        self.check(plot.locator("path.curve.ref").count() == 2, "and drawn once, in grey")
        self.check(
            sum(word.startswith("guessing any token, ") for word in words) == 3, "one that differs is each run's", words
        )
        self.quiet(page)

    def stories(self, _):
        """An event shows the server's text, or its keys if it has no text."""
        page = self.open(self.serve(rate=0).url)
        for event, words in STORIES:
            told = page.evaluate("event => story(event)", event)
            self.check(told == words, f"a {event['kind']} shows its text or its keys", told)
        ticks = "values => values.map((value) => tick(value, 'percent', values))"
        labels = page.evaluate(ticks, [0.0705, 0.071, 0.0715])
        self.check(labels == ["7.05 %", "7.10 %", "7.15 %"], "close ticks have enough digits", labels)
        self.quiet(page)

    def guesses(self, _):
        """The estimated end stays while no event arrives."""
        server = self.serve(rate=0)
        page = self.open(server.url)
        until = "document.querySelector('[data-tile=eta] .faint').textContent"
        self.until(page, f"{until} !== ''")
        before = page.evaluate(until)
        # Simulates a delay of a minute and a half.
        page.evaluate("{ const now = Date.now; Date.now = () => now() + 90_000 }")
        page.wait_for_timeout(2500)
        self.check(page.evaluate(until) == before, "the estimated end stays", (before, page.evaluate(until)))
        self.quiet(page)

    def hostile(self, _):
        server = self.serve()
        page = self.open(server.url)
        page.locator("#show-rows").click()
        page.locator("#all-keys").check()
        page.wait_for_timeout(500)
        text = page.evaluate("document.body.textContent")
        self.check("<img src=x onerror=" in text, "hostile texts are shown as texts")
        self.check(page.locator("img, main script, iframe, object").count() == 0, "no text creates an element")
        self.check("owned" not in page.title(), "no text runs a script", page.title())
        self.check("\u202e" not in text, "bidirectional control characters are made visible")
        self.check(all(url.startswith((server.url, "blob:")) for url in page.asked), "no request goes to another host")
        self.quiet(page)

    def controls(self, _):
        server = self.serve()
        page = self.open(server.url)
        page.wait_for_selector("#controls:not([hidden])")
        page.locator("#note").fill(f"a note {simulated_run.HOSTILE}")
        page.locator('[data-action="note"]').click()
        page.locator("#token").fill("wrong")
        page.locator("dialog .strong").click()
        self.until(page, "document.querySelector('#dialog').textContent.includes('CLOZE_TOKEN')")
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
        server.play.has_token = False
        self.until(page, "document.querySelector('#controls .warned:not([hidden])')")
        off = page.locator('[data-action="stop"]').is_disabled()
        self.check(off, "without a token no control is offered", off)
        self.quiet(page, but=("401",))

    def reconnect(self, _):
        server = self.serve(steps=300)
        page = self.open(server.url)
        page.evaluate("window.same = true")
        server.kill()
        page.wait_for_selector("#connection.lost")
        page.wait_for_timeout(2500)
        words = page.locator("#connection").inner_text()
        self.check("trying again" in words or "connecting" in words, "the page shows the lost connection", words)
        self.picture(page, "dark-lost")
        boot = page.evaluate("page.feed.boot")
        again = self.serve(steps=400, port=server.port)
        page.wait_for_selector("#connection.live", timeout=25_000)
        self.until(page, "boot => page.feed.boot !== boot", boot)
        self.until(page, "view.run.groups.reports.axes.step.at(-1) >= 4010")
        self.check(page.evaluate("window.same === true"), "it continues without being loaded again")
        steps = page.evaluate("view.run.groups.reports.axes.step")
        self.check(all(a < b for a, b in itertools.pairwise(steps)), "no step is there twice")
        # A server at its stream limit is retried.
        again.limited = True
        again.cut()
        page.wait_for_selector("#connection.lost")
        page.wait_for_timeout(1500)
        again.limited = False
        page.wait_for_selector("#connection.live", timeout=25_000)
        # The same process: missed events are fetched by number.
        last = page.evaluate("page.feed.last")
        self.until(page, "last => page.feed.last > last", last)
        steps = page.evaluate("view.run.groups.reports.axes.step")
        self.check(all(b - a == 10 for a, b in itertools.pairwise(steps[-40:])), "no step was missed", steps[-5:])
        self.quiet(page, but=("ERR_", "503"))

    def resets(self, _):
        """A server that always resets is not asked endlessly."""
        server = self.serve(steps=20)
        server.resets = True
        page = self.open(server.url, wait=False)
        page.wait_for_timeout(4000)
        self.check(2 <= server.histories <= 7, "resets are followed with a delay", server.histories)
        server.resets = False
        page.wait_for_selector("#connection.live", timeout=20_000)
        self.quiet(page)

    def odd(self, _):
        """Invalid responses do not break the page."""
        server = mock.Server(Odd(), rate=3)
        self.servers.append(server)
        for size in (DESKTOP, PHONE):
            page = self.open(server.url, size=size, wait=False)
            page.wait_for_selector("#connection.live")
            page.wait_for_timeout(2500)
            self.check(page.locator(".plot").count() >= 40, "valid data is drawn", page.locator(".plot").count())
            wide = self.probe(page, "wide", size["width"])
            self.check(not wide, "very long names do not overflow", wide[:5])
            self.picture(page, f"odd-{size['width']}", whole=True)
            self.quiet(page)

    def rollback(self, _):
        """After a rollback no step is shown twice, and removed steps are gone."""
        server = self.serve(steps=300, rate=0)
        page = self.open(server.url)
        server.play.go_back(2000)
        self.until(page, "view.run.groups.reports.axes.step.at(-1) === 2000")
        self.check(page.evaluate("view.run.groups.validations.axes.step.at(-1)") == 2000, "validations are removed too")
        page.wait_for_selector("#connection.live")
        for _ in range(3):
            server.play.advance()
        self.until(page, "view.run.groups.reports.axes.step.at(-1) === 2030")
        steps = page.evaluate("view.run.groups.reports.axes.step")
        self.check(all(b - a == 10 for a, b in itertools.pairwise(steps)), "each step is there once", steps[-5:])
        hours = page.evaluate("view.run.groups.reports.axes.hours")
        self.check(None not in hours and len(hours) == len(steps), "each step has its hours")
        newest = server.play.columns["reports"].series["queue/fill"]["mean"][-1]
        found = page.evaluate("view.run.groups.reports.newest('queue/fill')")
        self.check(found == newest, "points come as the server makes them", (found, newest))
        self.quiet(page)

    def much(self, _):
        """Ten thousand events: duration and memory."""
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
        print(f"  {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after")
        self.check(took < 4000, "ten thousand events are processed quickly", took)
        self.check(points <= 4096 and events <= 4096, "columns and lists have bounds", (points, events))
        self.check(after < before * 1.15 + 2e6, "memory does not grow", (before, after))
        page.wait_for_timeout(400)
        frame = self.probe(page, "drawing")
        print(f"  drawing: plots {frame[0]} ms, crosshair {frame[1]} ms, time line {frame[2]} ms")
        self.check(frame[0] < 150 and frame[1] < 40, "drawing is fluid", frame)
        self.picture(page, "dark-much")
        self.quiet(page)

    def preparation(self, _):
        server = self.serve(kind="prepare", steps=250)
        self.spread(server.url)
        page = self.open(server.url, wait=False)
        page.wait_for_selector("#flow:not([hidden])")
        self.picture(page, "dark-prepare", whole=True)
        server.play.end()
        page.wait_for_selector("#prepared:not([hidden])")
        self.check("tokens" in page.locator("#prepared").inner_text(), "its end has metrics")
        seen, poor = self.probe(page, "contrasts")
        self.check(not poor, f"its {seen} texts can be read", poor[:5])
        self.picture(page, "dark-prepared", whole=True)
        self.quiet(page)

    def idle(self, _):
        """A preparation without work shows no sizes."""
        server = self.serve(kind="prepare", steps=0, rate=0)
        told = dict(bytes=1, bytes_kept=1, bytes_total=1, parts=4, parts_total=4, text_bytes=0, tokens=0)
        server.play.tell(
            server.play.event("prepare_progress", **told, text_bytes_per_s=0.0, tokens_per_s=0.0, eta_s=None)
        )
        page = self.open(server.url, wait=False)
        page.wait_for_selector('.plot[data-key="text"] .labels text')
        self.settled(page)
        labels = page.locator('.plot[data-key="text"] .labels text[text-anchor=end]').all_text_contents()
        self.check(all("-" not in label and "−" not in label for label in labels), "no size is negative", labels)
        self.check("1 B" not in labels, "a missing size is not shown as 1 B", labels)
        self.quiet(page)

    def report_page(self, size, scheme):
        path = Path(tempfile.mkdtemp()) / "report.html"
        path.write_text(mock.assemble(mock.report())[0])
        page = self.open(path.as_uri(), size=size, scheme=scheme, wait=False)
        page.wait_for_selector('.plot[data-key="loss"]')
        page.evaluate("document.querySelector('.plot[data-key=loss]').scrollIntoView()")
        page.wait_for_selector('.plot[data-key="loss"] path.curve')
        page.evaluate("scrollTo(0, 0)")
        return page

    def endings(self, _):
        """A stop is shown as an alert only if it ended the run and was not wanted."""
        page = self.open(self.serve().url)
        stop = lambda why: {"kind": "stop", "why": why, "time": 2, "summary": why}
        cases = (
            ([stop("failed")], "failed"),
            ([stop("terminate"), {"kind": "note", "time": 3}], "terminate"),
            ([stop("failed"), {"kind": "resume", "time": 3}], None),
            ([stop("failed"), {"kind": "resume", "time": 3}, stop("finished")], None),
            ([stop("terminate"), {"kind": "change", "how": "extend", "time": 3}], None),
            ([stop("interrupt")], None),
            ([stop("requeue")], None),
        )
        for events, alert in cases:
            found = page.evaluate("(events) => newest_alert(Run.read({ events }))?.why ?? null", events)
            self.check(found == alert, f"the alert of {events}", found)
        self.quiet(page)

    def report(self, _):
        for size, scheme, name in ((DESKTOP, "light", "report"), (PHONE, "dark", "report-phone")):
            page = self.report_page(size, scheme)
            curves = page.locator('.plot[data-key="loss"] path.curve').count()
            self.check(curves == 3, "a report overlays its runs", curves)
            self.check(page.asked == [page.url], "a report loads nothing", page.asked)
            differ = "differ between the runs" in page.locator("#configuration").inner_text()
            self.check(differ, "it lists the keys in which they differ")
            self.check(not page.locator("#controls").is_visible(), "it has no controls")
            self.check(page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it does not overflow")
            done = page.locator('[data-tile="done"] dd:first-of-type').all_inner_texts()
            self.check(len(done) == 3 and "–" not in done, "each run shows its progress", done)
            self.check("2 January 2026" in page.locator("#foot").inner_text(), "it shows its date")
            self.check("as of" in page.locator("#kind").inner_text(), "and that it is a snapshot")
            self.picture(page, name, whole=True)
            while (older := page.locator("#happened-list + button")).is_visible():
                older.click()
                self.settled(page)
            names = set(page.locator("#happened-list .of-run").all_inner_texts())
            self.check(len(names) == 3, "events of all runs are in one list", names)
            if size == DESKTOP:
                page.locator("#runs .chip").nth(1).click()
                self.until(page, "location.hash.includes('hide=taco-2')")
                page.reload()
                page.wait_for_selector(".tiles-of")
                self.check(page.locator(".tiles-of").count() == 2, "the address contains the displayed runs")
            self.quiet(page)

    def empty(self, _):
        server = self.serve(steps=0, rate=0)
        page = self.open(server.url, wait=False)
        page.wait_for_selector("#connection.live")
        self.check(page.locator("#curves-empty").is_visible(), "an empty run has a message")
        self.check(
            "No events yet" in page.locator("#happened-list").inner_text(), "and that nothing has happened"
        )
        self.picture(page, "dark-empty")
        server.rate = 5
        page.wait_for_selector('.plot[data-key="loss"] path.curve')
        self.check(not page.locator("#curves-empty").is_visible(), "its first values create the plots")
        self.quiet(page)


STORIES = [
    ({"kind": "warning", "message": "m", "summary": "m; h"}, "m; h"),
    ({"kind": "later", "version": 9, "depth": 3, "names": ["a"], "step": 7}, 'depth 3, names ["a"]'),
]
