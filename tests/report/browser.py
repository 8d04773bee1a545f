"""Chromium for the tests of the page, and for its pictures in the docs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tensorsmith.report import render
from tensorsmith.report.data import Report

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
DRIVER = os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,1000",
)
_PATIENCE = 120.0  # seconds for what takes one, where nobody else is busy


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """A browser of its own, with an empty profile, that keeps what the console says."""
    if not (CHROMIUM and DRIVER):
        raise RuntimeError("there is no Chromium here: `make test-browser` installs it, or let CHROMIUM and CHROMEDRIVER name both")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    try:
        yield made
    finally:
        made.quit()


class Browser:
    """Chromium with one page open."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, report: Report, path: Path, refresh: float | None = None) -> Browser:
        self.prefer("light")
        render.write(report, path, refresh)
        return self.go(path)

    def go(self, path: Path) -> Browser:
        """Loads a page, and waits until it has run its script: a busy driver may come back before."""
        self.driver.get("about:blank")  # where the page was open already, that is not to be taken for it
        self.driver.get(path.as_uri())
        self.wait("document.readyState === 'complete' && document.querySelectorAll('#controls select').length > 0")
        return self

    def wait(self, condition: str) -> None:
        """Until it is true, as it must be in the end."""
        WebDriverWait(self.driver, _PATIENCE).until(lambda driver: driver.execute_script(f"return {condition}"))

    def prefer(self, colours: str) -> None:
        """The system's colours, "light" or "dark"."""
        wanted = {"features": [{"name": "prefers-color-scheme", "value": colours}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        (found,) = self.find(selector)
        return found

    def tab(self, name: str) -> WebElement:
        """The panel of a tab, opened by a click."""
        self.one(f"#tab-{name}").click()
        return self.one(f"#panel-{name}")

    def column(self, panel: WebElement, number: int) -> list[str]:
        """The texts of a column of the last table of a panel."""
        table = panel.find_elements(By.TAG_NAME, "table")[-1]
        return [row.find_elements(By.TAG_NAME, "td")[number].text for row in table.find_elements(By.CSS_SELECTOR, "tbody tr")]

    @property
    def complaints(self) -> list[str]:
        """What the console says, worse than a remark."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    @property
    def undrawn(self) -> int:
        """Charts to be seen that have no picture."""
        return int(self.run("return charts.filter((c) => c.node.offsetParent && !c.node.querySelector('.main-svg .trace')).length"))
