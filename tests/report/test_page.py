"""The page in a browser: every tab opens by mouse and by keyboard, the console has no complaint, nothing is asked of a network.

Runs where Debian's `chromium` and `chromium-driver` are installed, or what CHROMIUM and CHROMEDRIVER name.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select
from tests.report.browser import Browser, chromium
from tests.report.samples import LARGE, SMALL, TARGET, TIMING, default, failure, tuned

from tensorsmith.records import Store
from tensorsmith.report import collect
from tensorsmith.report.data import Forecast, Kernel, Report, Roof, Runner, Total
from tensorsmith.search.trial import Status

TABS = ["time", "curves", "roofline", "programs", "failures", "forecasts", "before", "machine"]

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def browser(driver: webdriver.Chrome) -> Iterator[Browser]:
    """A browser with an empty page; whatever a test opens in it, nothing may go wrong there."""
    found = Browser(driver)
    yield found
    assert found.complaints == []
    assert found.run("return performance.getEntriesByType('resource').map((e) => e.name)") == []
    driver.execute_script("sessionStorage.clear()")


@pytest.fixture
def report(tmp_path: Path) -> Report:
    with Store.open(tuned(tmp_path / "tune.db"), read_only=True) as store:
        return collect.of_records(store)


@pytest.fixture
def page(browser: Browser, report: Report, tmp_path: Path) -> Browser:
    return browser.open(report, tmp_path / "report.html")


def test_every_tab_shows_its_own_panel(page: Browser) -> None:
    assert [tab.get_attribute("id") for tab in page.find("[role=tab]")] == [f"tab-{name}" for name in TABS]
    for name in TABS:
        panel = page.tab(name)
        assert panel.is_displayed() and len(panel.text) > 40
        assert [p.get_attribute("id") for p in page.find("[role=tabpanel]") if p.is_displayed()] == [f"panel-{name}"]
        assert page.undrawn == 0
        assert page.run("return location.hash") == f"#{name}"
    assert int(page.run("return charts.filter((c) => c.drawn).length")) == int(page.run("return charts.length")) >= 8


def test_every_task_has_curves_and_programs(page: Browser) -> None:
    page.tab("curves")
    for name in ("D f32[64, 64]", "C f32[32, 16]", "all tasks"):
        Select(page.one("#curve-task")).select_by_visible_text(name)
        assert page.undrawn == 0
    Select(page.one("#curve-task")).select_by_visible_text("C f32[32, 16]")
    assert page.column(page.one("#panel-curves"), 4)[-1] == "C.i.1: 2 → 4"
    panel = page.tab("programs")
    for name, stage in (("D f32[64, 64]", "D"), ("C f32[32, 16]", "C")):
        Select(page.one("#program-task")).select_by_visible_text(name)
        winner, plain = panel.find_elements(By.TAG_NAME, "section")
        for column in (winner, plain):
            assert f"output {stage}: f32" in column.text and "registers" in column.text and "traffic" in column.text


def test_all_by_keyboard(page: Browser) -> None:
    keys = page.one("[role=tab][aria-selected=true]")
    page.run("arguments[0].focus()", keys)
    seen = []
    for key in [Keys.ARROW_RIGHT] * (len(TABS) - 1) + [Keys.ARROW_RIGHT, Keys.END, Keys.HOME, Keys.ARROW_LEFT]:
        page.driver.switch_to.active_element.send_keys(key)
        chosen = page.driver.switch_to.active_element
        assert chosen.get_attribute("aria-selected") == "true" and chosen.get_attribute("tabindex") == "0"
        assert page.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
        seen.append(str(chosen.get_attribute("id")).removeprefix("tab-"))
    assert seen == [*TABS[1:], "time", "machine", "time", "machine"]
    page.tab("time")
    reached = set()
    for _ in range(8):  # what can be used is reached by Tab alone
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.add(page.run("return document.activeElement.type || document.activeElement.getAttribute('role')"))
    assert {"tabpanel", "search", "region", "button"} <= reached


def test_roles_and_labels(page: Browser) -> None:
    for tab in page.find("[role=tab]"):
        assert page.one(f"#{tab.get_attribute('aria-controls')}").get_attribute("aria-labelledby") == tab.get_attribute("id")
    unnamed = "return [...document.querySelectorAll('input, select')].filter((x) => !x.labels.length && !x.ariaLabel).length"
    assert page.run(unnamed) == 0
    assert page.run("return [...document.querySelectorAll('.plot')].every((x) => x.getAttribute('aria-label'))")
    assert page.run("return document.documentElement.lang") == "en"


def test_tables_are_sorted_and_searched(page: Browser) -> None:
    panel = page.tab("time")
    assert page.column(panel, 3) == ["3.00 ms", "2.50 ms"]
    head = next(th for th in panel.find_elements(By.TAG_NAME, "th") if th.text.startswith("a call"))
    button = head.find_element(By.TAG_NAME, "button")
    button.send_keys(Keys.ENTER)
    assert (head.get_attribute("aria-sort"), page.column(panel, 3)) == ("descending", ["3.00 ms", "2.50 ms"])
    button.send_keys(Keys.ENTER)
    assert (head.get_attribute("aria-sort"), page.column(panel, 3)) == ("ascending", ["2.50 ms", "3.00 ms"])
    search = panel.find_element(By.CSS_SELECTOR, "input[type=search]")
    search.send_keys("64x64 alone")
    assert page.column(panel, 0) == ["D f32[64, 64]"]
    assert panel.find_element(By.CSS_SELECTOR, "[role=status]").text == "1 of 2 rows"
    search.send_keys(" nowhere")
    assert page.column(panel, 0) == []


def test_a_task_leads_to_its_curve(page: Browser) -> None:
    button = next(b for b in page.tab("time").find_elements(By.CSS_SELECTOR, "button.link") if b.text == "C f32[32, 16]")
    button.send_keys(Keys.ENTER)
    assert page.one("#panel-curves").is_displayed() and page.undrawn == 0
    assert Select(page.one("#curve-task")).first_selected_option.text == "C f32[32, 16]"


def test_light_and_dark(page: Browser) -> None:
    ground = "return [getComputedStyle(document.body).backgroundColor, charts[0].node.layout.paper_bgcolor]"
    light = page.run(ground)
    page.prefer("dark")
    page.wait("document.documentElement.dataset.theme === 'dark'")
    dark = page.run(ground)
    assert dark[0] != light[0] and dark[1] != light[1]
    choice = Select(page.one("#theme"))
    choice.select_by_visible_text("light")
    assert page.run(ground) == light
    choice.select_by_visible_text("dark")
    page.prefer("light")
    assert page.run(ground) == dark


def test_printing_has_everything(page: Browser) -> None:
    printed = page.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert len([p for p in page.find("[role=tabpanel]") if p.is_displayed()]) == len(TABS) and page.undrawn == 0
    page.run("dispatchEvent(new Event('afterprint'))")
    assert [p.get_attribute("id") for p in page.find("[role=tabpanel]") if p.is_displayed()] == ["panel-time"]


def test_a_strangers_text_stays_text(browser: Browser, report: Report, tmp_path: Path) -> None:
    evil = "</script><img src=x onerror='window.harmed = true'>"
    (setting,) = report.settings
    tasks = []
    for task in setting.tasks:
        failures = tuple(dataclasses.replace(f, cause=evil) for f in task.failures)
        tasks.append(dataclasses.replace(task, name=evil, failures=failures))
    changed = dataclasses.replace(report, title=evil, settings=(dataclasses.replace(setting, tasks=tuple(tasks)),))
    page = browser.open(changed, tmp_path / "evil.html")
    for name in TABS:
        page.tab(name)
        assert page.undrawn == 0
    assert page.one("#title").text == f"{evil}: tuning report"
    assert page.find("img") == [] and page.run("return window.harmed === undefined")
    assert evil in page.tab("failures").text


def test_a_profile_alone(browser: Browser, tmp_path: Path) -> None:
    kernels = (Kernel("conv", "f32[8]", 2, 7e-3, 0.875, 12000, "record"), Kernel("copy", "", 1, 1e-3, 0.125, 0, ""))
    report = Report(
        "net",
        "a profile",
        "net",
        0.0,
        (("Python", "3"),),
        (),
        kernels,
        (Runner("tensorsmith", 1e-3, 2e-3), Runner("other", 2e-3, 3e-3)),
    )
    page = browser.open(report, tmp_path / "profile.html")
    assert [tab.text for tab in page.find("[role=tab]")] == ["Time", "Machine"]
    assert "87.5 %" in page.tab("time").text and "2.00×" in page.tab("time").text and page.undrawn == 0


def test_the_roofline_of_a_profile(browser: Browser, report: Report, tmp_path: Path) -> None:
    kernels = (Kernel("conv", "f32[8]", 2, 6e-6, 0.75, 12000, "record", 6000.0), Kernel("copy", "", 1, 2e-6, 0.25, 0, ""))
    alone = Report("net", "a profile", "net", 0.0, (), (), kernels, roof=Roof(4e9, 2e9, "estimated"), facts=(("target", "x86"),))
    page = browser.open(alone, tmp_path / "profile.html")
    assert [tab.text for tab in page.find("[role=tab]")] == ["Time", "Roofline", "Machine"]
    panel = page.tab("roofline")
    assert page.undrawn == 0 and page.column(panel, 0) == ["conv f32[8]", "copy"]
    assert page.column(panel, 3)[0] == "2.00" and page.column(panel, 5)[0] == "50.0 %"  # 2 GFLOP/s of 4 at that intensity
    assert "x86" in page.tab("machine").text and "4 GFLOP/s (estimated)" in page.tab("machine").text
    both = dataclasses.replace(report, kernels=kernels, roof=alone.roof)
    page = browser.open(both, tmp_path / "both.html")
    panel = page.tab("roofline")
    assert page.undrawn == 0 and "Kernels of the profile" in panel.text and "Tasks of the records" in panel.text
    assert page.column(panel, 0) == ["D f32[64, 64]", "C f32[32, 16]"]


def test_several_targets(browser: Browser, tmp_path: Path) -> None:
    other = dataclasses.replace(TARGET, cpu="znver9")
    with Store.open(tmp_path / "tune.db") as store:
        store.add(SMALL, TARGET, TIMING, [default(SMALL, 1e-3)])
        store.add(LARGE, other, TIMING, [default(LARGE, 2e-3), failure(LARGE, Status.TIMED_OUT, "")])
        report = collect.of_records(store)
    page = browser.open(report, tmp_path / "report.html")
    assert "C f32[32, 16]" in page.tab("time").text
    Select(page.one("#setting")).select_by_index(1)
    for name in TABS:
        page.tab(name)
        assert page.undrawn == 0
    assert "D f32[64, 64]" in page.tab("time").text and "timed out" in page.tab("failures").text


def test_a_page_that_follows_keeps_what_was_chosen(browser: Browser, report: Report, tmp_path: Path) -> None:
    page = browser.open(report, tmp_path / "report.html", refresh=3600.0)
    assert "reload every 3600 s" in page.one("#controls").text and page.one("#follow").is_selected()
    page.tab("curves")
    Select(page.one("#curve-task")).select_by_visible_text("C f32[32, 16]")
    page.one("#follow").click()
    page.go(tmp_path / "report.html")
    assert page.one("#panel-curves").is_displayed() and not page.one("#follow").is_selected()
    assert Select(page.one("#curve-task")).first_selected_option.text == "C f32[32, 16]"


# -- what people look at -----------------------------------------------------------------------------------------------------------

COVERED = (Path(__file__).parent / "covered.js").read_text()


@pytest.mark.parametrize("width", [1400, 700])
def test_nothing_covers_anything_in_a_chart(page: Browser, width: int) -> None:
    page.driver.set_window_size(width, 1000)
    page.driver.refresh()
    for name in ("time", "curves", "roofline", "failures", "forecasts", "before"):
        page.tab(name)
        assert page.undrawn == 0 and page.run(COVERED) == [], name
    page.tab("curves")
    for task in ("D f32[64, 64]", "C f32[32, 16]"):
        Select(page.one("#curve-task")).select_by_visible_text(task)
        assert page.undrawn == 0 and len(page.find("#panel-curves .legend .bg")) == 2 and page.run(COVERED) == [], task
    page.driver.set_window_size(1280, 1000)


def labels(page: Browser, axis: str) -> list[str]:
    """Of the first chart that is to be seen."""
    return page.run(
        f"return [...charts.find((c) => c.node.offsetParent).node.querySelectorAll('.{axis} text')].map((x) => x.textContent)"
    )


@pytest.mark.parametrize(
    ("decades", "wanted"),
    [
        (0.3, 8),  # as on a linear axis
        (1.5, 6),  # 1, 2, 5
        (3.0, 10),
        (6.0, 7),  # powers of ten
    ],
)
def test_a_logarithmic_axis_has_few_labels(browser: Browser, report: Report, tmp_path: Path, decades: float, wanted: int) -> None:
    (setting,) = report.settings
    forecasts = tuple(Forecast("x", 1e-5 * 10 ** (decades * n / 9), 1e-5 * 10 ** (decades * n / 9)) for n in range(10))
    task = dataclasses.replace(setting.tasks[0], forecasts=forecasts)
    page = browser.open(dataclasses.replace(report, settings=(dataclasses.replace(setting, tasks=(task,)),)), tmp_path / "r.html")
    page.tab("forecasts")
    for axis in ("xtick", "ytick"):
        found = labels(page, axis)
        assert 2 <= len(found) <= wanted and len(set(found)) == len(found), found
        assert all(float(text.replace(",", "")) > 0 for text in found)  # whole numbers, not the digits of each decade
    assert page.run(COVERED) == []


def test_the_curve_of_a_network_is_not_flattened(browser: Browser, report: Report, tmp_path: Path) -> None:
    (setting,) = report.settings
    totals = tuple(Total(float(n), n, 1e-3 * (1 - n / 1000)) for n in range(1, 20))
    page = browser.open(dataclasses.replace(report, settings=(dataclasses.replace(setting, totals=totals),)), tmp_path / "r.html")
    page.tab("curves")
    low, high = page.run("return charts.find((c) => c.node.offsetParent).node._fullLayout.yaxis.range")
    assert low > 970 and high < 1005


def test_a_share_above_the_roof_has_its_reason(browser: Browser, tmp_path: Path) -> None:
    kernels = (
        Kernel("fits", "f32[8]", 1, 6e-6, 0.5, 12000, "record", 6000.0),
        Kernel("cached", "f32[8]", 1, 2e-6, 0.3, 6000, "record", 6000.0),
        Kernel("winograd", "f32[8]", 1, 1e-6, 0.2, 12000, "record", 600.0),
    )
    alone = Report("net", "a profile", "net", 0.0, (), (), kernels, roof=Roof(4e9, 2e9, "estimated"))
    page = browser.open(alone, tmp_path / "profile.html")
    panel = page.tab("roofline")
    assert page.column(panel, 5) == ["50.0 %", "150.0 %", "300.0 %"]
    fits, cached, winograd = page.column(panel, 7)
    assert (
        fits == "\u2013"
        and cached == "its data stay in the caches"
        and winograd.startswith("it does fewer operations than the definition")
    )
    hover = page.run("return charts.find((c) => c.node.offsetParent).node.data[1].text")
    assert "150.0 % of the roof (its data stay in the caches), " in hover[1] and "50.0 % of the roof, " in hover[0]


def test_a_default_schedule_that_wins_is_shown_once(browser: Browser, tmp_path: Path) -> None:
    with Store.open(tmp_path / "tune.db") as store:
        store.add(SMALL, TARGET, TIMING, [default(SMALL, 1e-3)])
        report = collect.of_records(store)
    page = browser.open(report, tmp_path / "report.html")
    panel = page.tab("programs")
    (only,) = panel.find_elements(By.TAG_NAME, "section")
    assert only.find_element(By.TAG_NAME, "h3").text == "The default schedule is the winner: 1.00 ms"
    heads = [th.text.split(" \u2195")[0] for th in page.tab("before").find_elements(By.TAG_NAME, "th")]
    assert heads == [
        "task",
        "calls",
        "before",
        "after",
        "faster",
        "timed",
        "before is the",
    ]  # timed alone: no columns say that again
