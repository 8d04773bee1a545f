// Which parts of the charts that are to be seen cover each other, by their names.
const found = [];
const box = (node) => node.getBoundingClientRect();
const apart = (a, b) => a.right - 1 <= b.left || b.right - 1 <= a.left || a.bottom - 1 <= b.top || b.bottom - 1 <= a.top;

function look(parts) {
  parts.forEach(([name, one], n) => {
    for (const [other, two] of parts.slice(0, n)) if (one.width && two.width && !apart(one, two)) found.push(`${other} and ${name}`);
  });
}

for (const chart of charts.filter((c) => c.node.offsetParent)) {
  const whole = box(chart.node);
  const { l, t, w, h } = chart.node._fullLayout._size; // of the plot itself
  const plot = { left: whole.left + l, right: whole.left + l + w, top: whole.top + t, bottom: whole.top + t + h, width: w };
  const named = [".legend .bg", ".modebar", ".xtitle", ".ytitle"].map((name) => [name, chart.node.querySelector(name)]);
  const parts = [["plot", plot], ...named.filter(([, node]) => node).map(([name, node]) => [name, box(node)])];
  const labels = [...chart.node.querySelectorAll(".xtick text, .ytick text")].map((node) => [`label ${node.textContent}`, box(node)]);
  look(parts);
  look(labels);
  for (const part of parts.slice(1)) for (const label of labels) look([part, label]);
  if (whole.right > innerWidth) found.push("the edge of the window");
}
return found;
