"""Tests a static page, such as that of `cloze profile --report`, in the dark and light color schemes and on a
phone: no console output, no network request, no overflow, and enough contrast of every text.

    python tests/page/report.py page.html --pictures folder
"""

import argparse
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

LOOKS = {
    "dark": {"viewport": {"width": 1100, "height": 900}, "color_scheme": "dark"},
    "light": {"viewport": {"width": 1100, "height": 900}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "device_scale_factor": 2},
}

# Texts with a contrast below 4.5 to the background at their center (WCAG 2.2, AA). Hidden text is skipped.
CONTRASTS = """() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const over = (top, ground) => top.slice(0, 3).map((c, at) => c * (top[3] ?? 1) + ground[at] * (1 - (top[3] ?? 1)));
  const body = rgb(getComputedStyle(document.body).backgroundColor);
  const found = [];
  for (const text of document.querySelectorAll('svg.plot text, p, h1, h2, li, dt, dd, th, td, code')) {
    if (!text.textContent.trim() || text.querySelector('svg')) continue;
    const box = text.getBoundingClientRect();
    if (!box.width || box.right > innerWidth) continue;
    text.scrollIntoView({ block: 'center' });
    const now = text.getBoundingClientRect();
    const is_drawn = text instanceof SVGElement;
    const under = !is_drawn ? [] : document
      .elementsFromPoint(now.left + now.width / 2, now.top + now.height / 2)
      .filter((it) => it instanceof SVGElement && ['rect', 'path'].includes(it.tagName) && getComputedStyle(it).fill !== 'none');
    let ground = body;
    for (const shape of under.reverse()) {
      const style = getComputedStyle(shape);
      const [r, g, b] = rgb(style.fill);
      ground = over([r, g, b, Number(style.fillOpacity)], ground);
    }
    const ink = rgb(is_drawn ? getComputedStyle(text).fill : getComputedStyle(text).color);
    const [low, high] = [light(ink), light(ground)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) found.push(`${text.textContent.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  scrollTo(0, 0);
  return found;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--pictures", type=Path)
    asked = parser.parse_args()
    failed = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        for look, options in LOOKS.items():
            page = browser.new_context(**options).new_page()
            page.on("console", lambda said, look=look: failed.append(f"{look}: the console says {said.text}"))
            page.on("pageerror", lambda error, look=look: failed.append(f"{look}: {error}"))
            page.on("request", lambda to, look=look: to.url.startswith("file:") or failed.append(f"{look}: asks {to.url}"))
            page.goto(asked.page.resolve().as_uri())
            beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if beyond > 0:
                failed.append(f"{look}: {beyond} pixels lie beyond the screen")
            failed += [f"{look}: too little contrast: {text}" for text in page.evaluate(CONTRASTS)]
            if page.locator("svg.plot:visible").count() == 0 or not page.locator("h1").inner_text():
                failed.append(f"{look}: no sentence or no drawing")
            if asked.pictures:
                asked.pictures.mkdir(parents=True, exist_ok=True)
                page.screenshot(path=asked.pictures / f"{look}.png", full_page=True)
        browser.close()
    print("\n".join(failed) or f"{asked.page}: checked in the dark and light schemes and on a phone")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
