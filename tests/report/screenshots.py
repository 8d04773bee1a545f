"""Pictures of a report for the docs: `python -m tests.report.screenshots report.html docs/images` (needs Chromium)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from selenium.webdriver.support.ui import Select
from tests.report.browser import Browser, chromium


def main(page: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as driver:
        browser = Browser(driver).go(page.resolve())
        picture(browser, "time", folder)
        browser.tab("curves")
        Select(browser.one("#curve-task")).select_by_index(1)
        picture(browser, "curves", folder)
        browser.tab("programs")
        Select(browser.one("#program-task")).select_by_index(1)
        picture(browser, "programs", folder)
        Select(browser.one("#theme")).select_by_visible_text("dark")
        picture(browser, "roofline", folder)


def picture(browser: Browser, tab: str, folder: Path) -> None:
    browser.tab(tab)
    browser.driver.save_screenshot(str(folder / f"report-{tab}.png"))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
