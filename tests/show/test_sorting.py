"""A click on a column's head orders the rows of a notebook's table, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from tests.report.browser import chromium
from tests.show.things import profile

pytestmark = pytest.mark.browser


def test_rows_are_ordered_by_value_by_mouse_and_by_keyboard(tmp_path: Path) -> None:
    page = tmp_path / "profile.html"
    page.write_text(f"<!doctype html><body>{profile()._repr_html_()}</body>", encoding="utf-8")
    with chromium(tmp_path / "browser") as driver:
        driver.get(page.as_uri())

        def column(n: int) -> list[str]:
            return [cell.text for cell in driver.find_elements(By.CSS_SELECTOR, f"tbody td:nth-child({n})")]

        heads = {head.text: head for head in driver.find_elements(By.TAG_NAME, "th")}
        assert column(3) == ["9,000.00 us", "6,000.00 us", "1,000.00 us"]
        heads["calls"].click()
        assert column(2) == ["2", "1", "1"] and column(1)[0] == "conv f32[8]"
        heads["time"].click()
        assert column(3) == ["9,000.00 us", "6,000.00 us", "1,000.00 us"]  # by value, not by letters
        heads["time"].send_keys(Keys.ENTER)
        assert column(3) == ["1,000.00 us", "6,000.00 us", "9,000.00 us"]
