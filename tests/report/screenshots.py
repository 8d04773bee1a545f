"""Pictures of a report for the docs: `python -m tests.report.screenshots report.html docs/images` (needs Chromium)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from selenium.webdriver.support.ui import Select
from tests.report.browser import Browser, chromium

SHOWN = {"time": "time", "roofline": "roofline", "programs": "programs", "before": "before"}


def main(page: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as driver:
        browser = Browser(driver).go(page.resolve())
        for tab, name in SHOWN.items():
            browser.tab(tab)
            driver.save_screenshot(str(folder / f"report-{name}.png"))
        browser.tab("curves")
        Select(browser.one("#curve-task")).select_by_index(1)
        driver.save_screenshot(str(folder / "report-curves.png"))
        Select(browser.one("#theme")).select_by_visible_text("dark")
        browser.tab("forecasts")
        driver.save_screenshot(str(folder / "report-dark.png"))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
