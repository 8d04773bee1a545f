"""The pictures of docs/report.md: some tabs of a report, as Chromium draws them.

python docs/make/screenshots.py report.html        writes docs/images/report-*.png

It needs Debian's `chromium` and `chromium-driver` (or what CHROMIUM and CHROMEDRIVER name), and Pillow, which makes the files
small: 256 colours are enough for them.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from selenium.webdriver.support.ui import Select

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the browser of the tests

from tests.report.browser import Browser, chromium  # noqa: E402

IMAGES = ROOT / "docs" / "images"
TALLEST = 1000  # pixels of a picture


def main(page: Path) -> None:
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as driver:
        browser = Browser(driver)
        browser.prefer("light")
        driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        browser.go(page.resolve())
        picture(browser, "time")
        picture(browser, "before")
        most_improved(browser)
        picture(browser, "curves")
        browser.tab("programs")
        Select(browser.one("#program-task")).select_by_index(1)
        picture(browser, "programs")
        Select(browser.one("#theme")).select_by_visible_text("dark")
        picture(browser, "roofline")


def most_improved(browser: Browser) -> None:
    """Chooses the task of which most improvements are told; the first choice is all of them together."""
    panel, choice = browser.tab("curves"), Select(browser.one("#curve-task"))
    counts = []
    for n in range(1, len(choice.options)):
        choice.select_by_index(n)
        counts.append((len(browser.column(panel, 0)), -n))
    choice.select_by_index(-max(counts)[1])


def picture(browser: Browser, tab: str) -> None:
    """A tab from its top, as far down as it goes or a picture may."""
    browser.tab(tab)
    browser.wait("charts.every((c) => !c.node.offsetParent || c.node.querySelector('.main-svg .trace'))")
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    shot = Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")
    shot = shot.crop((0, 0, shot.width, min(shot.height, TALLEST)))
    path = IMAGES / f"report-{tab}.png"
    shot.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
