// Charts, by plotly.js: drawn when their panel is first shown, and again when the colours change.

// The buttons are named one by one: none of them may send anything anywhere.
const CONFIG = { displaylogo: false, responsive: true, displayModeBar: "hover", modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };
const charts = []; // {node, make, drawn}
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;"); // plotly reads markup
const short = (text, most = 44) => (text.length <= most ? text : `${text.slice(0, most - 1)}\u2026`);

// `make` gives {data, layout}. `caption` is what the picture says; `height` in rem.
function chart(caption, make, height = 24) {
  const node = el("div", { class: "plot", style: `height:${height}rem`, role: "img", "aria-label": caption });
  charts.push({ node, make, drawn: false });
  return el("figure", {}, el("figcaption", {}, caption), node);
}

function axis(title, more) {
  const [line, ticks] = [colour("line"), { ticks: "outside", ticklen: 6, tickcolor: colour("line") }]; // else labels meet in the corner
  const numbers = { exponentformat: "none", separatethousands: true };
  return { title: { text: title }, gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true, ...ticks, ...numbers, ...more };
}

// A logarithmic axis with few labels: powers of ten, or 1, 2 and 5 of each; where there is less than one decade, as on a linear axis.
// plotly would label every digit.
function logAxis(title, values, more) {
  const shown = values.filter((x) => x > 0);
  const decades = shown.length ? Math.log10(Math.max(...shown) / Math.min(...shown)) : 0;
  return axis(title, { type: "log", nticks: decades < 0.8 ? 6 : decades < 1.8 ? 3 : 5, tickformat: ",~g", ...more });
}

function draw(one) {
  const { data, layout } = one.make();
  const base = {
    paper_bgcolor: colour("ground"),
    plot_bgcolor: colour("ground"),
    font: { color: colour("ink"), family: "system-ui, sans-serif", size: 13 },
    margin: { l: 60, r: 20, t: 34, b: 45 }, // above there is room for the buttons, which nothing else may cover
    legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", xref: "paper", x: 0 },
    hoverlabel: { align: "left" },
  };
  Plotly.react(one.node, data, { ...base, ...layout }, CONFIG);
  one.drawn = true;
}

function drawVisible() {
  for (const one of charts) if (!one.drawn && one.node.offsetParent !== null) draw(one);
}

function redrawAll() {
  for (const one of charts) if (one.drawn) draw(one);
}

// Charts whose nodes are gone are let go.
function forget() {
  for (const one of charts.filter((c) => !c.node.isConnected)) Plotly.purge(one.node);
  charts.splice(0, charts.length, ...charts.filter((c) => c.node.isConnected));
}

function bars(rows, label, series) {
  const shown = rows.slice(0, 30);
  return {
    data: series.map((s) => ({
      type: "bar",
      orientation: "h",
      name: s.name,
      y: shown.map((row, n) => n),
      x: shown.map(s.value),
      text: shown.map((row) => plain(s.text(row))),
      textposition: "auto",
      hovertext: shown.map((row) => plain(label(row))),
      hoverinfo: "text+x",
      marker: { color: s.colour },
    })),
    layout: {
      barmode: "group",
      showlegend: series.length > 1,
      yaxis: axis("", { autorange: "reversed", tickvals: shown.map((row, n) => n), ticktext: shown.map((row) => plain(short(label(row)))) }),
    },
  };
}
const barHeight = (rows, series = 1) => 6 + Math.min(rows.length, 30) * (series > 1 ? 2.4 : 1.6);
