// The page itself: tabs, the choice of a target, colours, printing, and following a tuning that goes on.

const report = JSON.parse(document.getElementById("data").textContent);
const TABS = [
  ["time", "Time", timePanel, () => true],
  ["curves", "Curves", curvesPanel, (s) => s.tasks.some((t) => t.points.number.length)],
  ["roofline", "Roofline", rooflinePanel, () => true],
  ["programs", "Programs", programsPanel, () => true],
  ["failures", "Failures", failuresPanel, () => true],
  ["forecasts", "Forecasts", forecastsPanel, () => true],
  ["before", "Before and after", beforePanel, () => true],
  ["machine", "Machine", machinePanel, () => true],
];
const WITHOUT_RECORDS = ["time", ...(report.roof && report.kernels.some((k) => k.intensity) ? ["roofline"] : []), "machine"];

// What the reader chose outlives a reload; where a browser keeps nothing for files, it does not.
function remember(name, value) {
  try { sessionStorage.setItem(`tensorsmith ${name}`, value); } catch (problem) { /* kept by no one */ }
}
function recall(name) {
  try { return sessionStorage.getItem(`tensorsmith ${name}`); } catch (problem) { return null; }
}

let setting = report.settings[Number(recall("setting")) || 0] || report.settings[0] || null;

function build() {
  const shown = TABS.filter(([id, , , has]) => (setting ? has(setting) : WITHOUT_RECORDS.includes(id)));
  const tabs = document.getElementById("tabs");
  const panels = document.getElementById("panels");
  const open = [location.hash.slice(1), recall("tab"), shown[0][0]].find((id) => shown.some(([other]) => other === id));
  tabs.replaceChildren(...shown.map(([id, title]) => el("button", {
    type: "button", role: "tab", id: `tab-${id}`, "aria-controls": `panel-${id}`, on: { click: () => select(id), keydown: move },
  }, title)));
  panels.replaceChildren(...shown.map(([id, title, make]) => el("section", { role: "tabpanel", id: `panel-${id}`, "aria-labelledby": `tab-${id}`, tabindex: "0" },
    el("h2", { class: "panelname" }, title), make(setting, report))));
  forget();
  select(open, false);
}

function select(id, move = true) {
  for (const tab of document.querySelectorAll('[role="tab"]')) {
    const chosen = tab.id === `tab-${id}`;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !chosen;
  }
  remember("tab", id);
  if (move) history.replaceState(null, "", `#${id}`);
  drawVisible();
}

// Left, right, Home and End go from tab to tab.
function move(event) {
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  const here = tabs.indexOf(event.currentTarget);
  const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const tab = tabs[(to + tabs.length) % tabs.length];
  select(tab.id.slice(4));
  tab.focus();
}

function openTask(panel, task) {
  remember(panel, task.key);
  history.replaceState(null, "", `#${panel}`);
  build();
  document.getElementById(`tab-${panel}`).focus();
}

// -- colours -----------------------------------------------------------------------------------------------------------

const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function theme() {
  const wanted = recall("theme") || "as the system";
  document.documentElement.dataset.theme = wanted === "as the system" ? (prefersDark.matches ? "dark" : "light") : wanted;
  redrawAll();
}
prefersDark.addEventListener("change", theme);

addEventListener("beforeprint", () => {
  document.documentElement.dataset.theme = "light";
  document.body.classList.add("printing");
  redrawAll();
  drawVisible();
});
addEventListener("afterprint", () => {
  document.body.classList.remove("printing");
  theme();
});

// -- head and controls -------------------------------------------------------------------------------------------------

function choice(id, label, options, chosen, change) {
  const node = el("select", { id, on: { change: () => change(node.value) } }, options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
  return [el("label", { for: id }, label), node];
}

function head() {
  document.getElementById("title").textContent = `${report.title}: tuning report`;
  const trials = report.settings.reduce((sum, s) => sum + s.trials, 0);
  document.getElementById("subtitle").textContent = `${report.source}${report.settings.length ? `, ${number(trials, 0)} trials` : ""}; made ${day(report.made)}`;
  const controls = document.getElementById("controls");
  if (report.settings.length > 1) {
    const options = report.settings.map((s, n) => [String(n), `${s.target}, ${s.timing}`]);
    controls.append(...choice("setting", "Target and timing", options, String(report.settings.indexOf(setting)), (value) => {
      remember("setting", value);
      setting = report.settings[Number(value)];
      build();
    }));
  }
  controls.append(...choice("theme", "Colours", ["as the system", "light", "dark"].map((x) => [x, x]), recall("theme") || "as the system", (value) => {
    remember("theme", value);
    theme();
  }));
  if (report.refresh) follow(controls);
  document.getElementById("footer").textContent = "Made by tensorsmith report. This file loads nothing from anywhere. Pictures by plotly.js (MIT licence).";
}

// A page that follows a tuning loads itself again; not while someone types or looks elsewhere.
function follow(controls) {
  const box = el("input", { type: "checkbox", id: "follow", checked: recall("follow") !== "no", on: { change: () => remember("follow", box.checked ? "yes" : "no") } });
  controls.append(box, el("label", { for: "follow" }, `reload every ${report.refresh} s`));
  scrollTo(0, Number(recall("scroll")) || 0);
  setInterval(() => {
    const typing = document.activeElement && document.activeElement.type === "search" && document.activeElement.value;
    if (!box.checked || document.hidden || typing) return;
    remember("scroll", String(scrollY));
    location.reload();
  }, report.refresh * 1000);
}

theme();
build();
head();
