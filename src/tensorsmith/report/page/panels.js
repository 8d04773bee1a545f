// One function for each tab: it gives the nodes of the panel.

const MICRO = 1e6;

function timePanel(setting, report) {
  const parts = [];
  if (report.kernels.length) {
    parts.push(el("h2", {}, "Measured in the running network"));
    parts.push(
      chart("Share of the network's time, by kernel", () => {
        const found = bars(report.kernels, (k) => k.name, [{ name: "share", value: (k) => 100 * k.share, text: (k) => percent(k.share), colour: colour("series") }]);
        found.layout.xaxis = axis("% of the time");
        return found;
      }, barHeight(report.kernels)),
      table("Kernels of the profile, the costliest first", [
        { name: "kernel", value: (k) => k.name, left: true },
        { name: "calls", value: (k) => k.calls },
        { name: "time", value: (k) => k.seconds, show: (k) => time(k.seconds) },
        { name: "share", value: (k) => k.share, show: (k) => percent(k.share) },
        { name: "GFLOP/s", value: (k) => (k.flops ? k.flops / k.seconds / 1e9 : null), show: (k) => number(k.flops ? k.flops / k.seconds / 1e9 : null) },
        { name: "schedule", value: (k) => k.schedule, left: true },
      ], report.kernels),
    );
  }
  if (report.race.length) parts.push(el("h2", {}, "Side by side"), racePart(report.race));
  if (!setting) return parts;
  if (report.kernels.length) parts.push(el("h2", {}, "By the records"));
  parts.push(
    el("p", {}, "For each task, its calls times the seconds of its best program. ",
      report.model ? "" : "No model was given, so each workload counts once; with --model FILE.onnx, as often as the network calls it. ",
      "\u201cIn the network\u201d was timed as a step of the running network, \u201calone\u201d by itself; \u201cestimated\u201d was not measured at all."),
    chart("Share of the time, by task", () => {
      const found = bars(setting.tasks.filter((t) => known(t.share)), (t) => t.name, [{ name: "share", value: (t) => 100 * t.share, text: (t) => percent(t.share), colour: colour("series") }]);
      found.layout.xaxis = axis("% of the time");
      return found;
    }, barHeight(setting.tasks)),
    table("Tasks, the costliest first", [
      { name: "task", value: (t) => t.name, show: (t) => el("button", { type: "button", class: "link", on: { click: () => openTask("curves", t) } }, t.name), left: true },
      { name: "shapes", value: (t) => t.shapes, left: true },
      { name: "calls", value: (t) => t.weight },
      { name: "a call", value: (t) => t.seconds, show: (t) => time(t.seconds) },
      { name: "all calls", value: (t) => (known(t.seconds) ? t.weight * t.seconds : null), show: (t) => time(known(t.seconds) ? t.weight * t.seconds : null) },
      { name: "share", value: (t) => t.share, show: (t) => percent(t.share) },
      { name: "MFLOP", value: (t) => t.flops / 1e6, show: (t) => number(t.flops / 1e6, 2) },
      { name: "GFLOP/s", value: (t) => (t.rate ? t.rate / 1e9 : null), show: (t) => number(t.rate ? t.rate / 1e9 : null) },
      { name: "trials", value: (t) => t.trials },
      { name: "timed", value: (t) => t.source, left: true },
      ...(report.model ? [{ name: "nodes of the model", value: (t) => t.origins.join(", "), left: true }] : []),
    ], setting.tasks),
  );
  return parts;
}

function racePart(race) {
  const first = race[0];
  return table("Systems in one race, in turns; seconds of a call", [
    { name: "system", value: (r) => r.name, left: true },
    { name: "best", value: (r) => r.best, show: (r) => time(r.best) },
    { name: "median", value: (r) => r.median, show: (r) => time(r.median) },
    { name: `time / ${first.name}`, value: (r) => r.best / first.best, show: (r) => times(r.best / first.best) },
  ], race);
}

// `all`: what the choice of no task is called, if there is one. Tasks of one name are told apart by all their shapes.
function taskChoice(setting, tasks, id, chosen, all, change) {
  const same = (task) => tasks.some((t) => t !== task && t.name === task.name);
  const options = tasks.map((t) => el("option", { value: String(setting.tasks.indexOf(t)), selected: t === chosen }, same(t) ? `${t.name} (${t.shapes})` : t.name));
  const select = el("select", { id, on: { change: () => change(select.value === "" ? null : setting.tasks[Number(select.value)]) } },
    all ? el("option", { value: "", selected: !chosen }, all) : null, options);
  return el("div", { class: "choices" }, el("label", { for: id }, "Task"), select);
}

function curvesPanel(setting) {
  const tried = setting.tasks.filter((t) => t.points.number.length);
  const place = el("div", {});
  const show = (task) => {
    remember("curves", task ? task.key : "");
    place.replaceChildren(...(task ? taskCurves(task) : allCurves(setting, tried)));
    forget();
    drawVisible();
  };
  const task = tried.find((t) => t.key === recall("curves"));
  place.replaceChildren(...(task ? taskCurves(task) : allCurves(setting, tried)));
  return [taskChoice(setting, tried, "curve-task", task, "all tasks", show), place];
}

function line(name, x, y, more) {
  return { type: "scatter", mode: "lines", line: { shape: "hv", width: 2 }, name: plain(short(name)), x, y, ...more };
}

function gains(task) {
  const start = task.points.best.find(known);
  return task.points.best.map((b) => (known(b) ? start / b : null));
}

function allCurves(setting, tried) {
  const last = setting.totals[setting.totals.length - 1];
  const end = { ...last, trials: setting.trials, elapsed: Math.max(...tried.map((t) => t.points.elapsed[t.points.elapsed.length - 1])) };
  const steps = last ? [...setting.totals, end] : [];
  const network = last
    ? [["trials", "trials", (t) => t.trials], ["seconds", "seconds of tuning", (t) => t.elapsed]].map(([key, title, x]) =>
        chart(`The whole network, over ${key}`, () => ({
          data: [line("sum of all tasks", steps.map(x), steps.map((t) => t.seconds * MICRO), { line: { shape: "hv", width: 2, color: colour("series") } })],
          layout: { xaxis: axis(title), yaxis: axis("\u00b5s") },
        })))
    : [];
  const each = [["trials", "trials of the task", "number"], ["seconds", "seconds of tuning", "elapsed"]].map(([key, title, column]) =>
    chart(`Each task, over ${key}: how many times faster than its first program`, () => ({
      data: tried.map((t) => line(t.name, t.points[column], gains(t))),
      layout: { xaxis: axis(title), yaxis: logAxis("times faster", tried.flatMap(gains)), showlegend: tried.length <= 6 },
    })));
  const rows = tried.flatMap((t) => t.improvements.filter((i) => known(i.gain)).map((i) => ({ t, i })));
  return [
    el("div", { class: "figures" }, network),
    el("div", { class: "figures" }, each),
    table("Improvements of all tasks", [
      { name: "task", value: (r) => r.t.name, left: true },
      ...improvementColumns((r) => r.i),
    ], rows),
  ];
}

function improvementColumns(of) {
  return [
    { name: "trial", value: (r) => of(r).number },
    { name: "after", value: (r) => of(r).elapsed, show: (r) => `${number(of(r).elapsed)} s` },
    { name: "time", value: (r) => of(r).seconds, show: (r) => time(of(r).seconds) },
    { name: "gain", value: (r) => of(r).gain, show: (r) => times(of(r).gain) },
    { name: "what changed", value: (r) => of(r).changes.length, show: (r) => (known(of(r).gain) ? changeList(of(r).changes) : "the first program that ran"), left: true },
  ];
}

function taskCurves(task) {
  const p = task.points;
  const pick = (test) => p.number.map((n, k) => k).filter(test);
  const ran = pick((k) => known(p.seconds[k]) && !p.at_least[k]);
  const cut = pick((k) => known(p.seconds[k]) && p.at_least[k]);
  const failed = pick((k) => !known(p.seconds[k]));
  const top = Math.max(...p.seconds.filter(known), 0) * MICRO || 1;
  const made = [["trials", "trials", "number"], ["seconds", "seconds of tuning", "elapsed"]].map(([key, title, column]) =>
    chart(`${task.name}: over ${key}`, () => {
      const x = p[column];
      const dots = (name, which, y, symbol, tone, text) => ({
        type: "scatter", mode: "markers", name, x: which.map((k) => x[k]), y: which.map(y), marker: { symbol, color: colour(tone), size: 7 },
        text: which.map(text), hovertemplate: "%{text}<extra></extra>",
      });
      const say = (k) => plain(`trial ${p.number[k]}: ${time(p.seconds[k])}`);
      const data = [
        dots("timed", ran, (k) => p.seconds[k] * MICRO, "circle-open", "faint", say),
        dots("cut short", cut, (k) => p.seconds[k] * MICRO, "triangle-up-open", "faint", (k) => `${say(k)} or more`),
        dots("failed", failed, () => top, "x", "bad", (k) => plain(`trial ${p.number[k]}: ${p.status[k]}`)),
        line("best so far", x, p.best.map((b) => (known(b) ? b * MICRO : null)), { line: { shape: "hv", width: 2, color: colour("series") }, hoverinfo: "skip" }),
        {
          type: "scatter", mode: "markers", name: "improvement", x: task.improvements.map((i) => i[column]), y: task.improvements.map((i) => i.seconds * MICRO),
          marker: { symbol: "diamond", size: 10, color: colour("other") },
          text: task.improvements.map((i) => [`trial ${i.number}: ${time(i.seconds)}${known(i.gain) ? `, ${times(i.gain)}` : ""}`, ...i.changes.slice(0, 12).map(changeText)].map(plain).join("<br>")),
          hovertemplate: "%{text}<extra></extra>",
        },
      ];
      if (known(task.default)) data.push({ type: "scatter", mode: "lines", name: task.default_is, x: [Math.min(...x), Math.max(...x)], y: [task.default, task.default].map((s) => s * MICRO), line: { dash: "dash", color: colour("third") } });
      return { data: data.filter((d) => d.x.length), layout: { xaxis: axis(title), yaxis: logAxis("\u00b5s", [...p.seconds.filter(known), task.default || 0]) } };
    }, 28));
  return [el("div", { class: "figures" }, made), table(`Improvements of ${task.name}`, improvementColumns((i) => i), task.improvements)];
}

function rooflinePanel(setting, report) {
  const measured = report.kernels.filter((k) => known(k.rate) && k.intensity);
  const parts = [];
  if (report.roof && measured.length) {
    parts.push(setting ? el("h2", {}, "Kernels of the profile") : null, ...roofline(report.roof, "kernel", report.kernels, (k) => `${k.name} ${k.result}`));
  }
  if (setting) {
    parts.push(parts.length ? el("h2", {}, "Tasks of the records") : null, ...roofline(setting.roof, "task", setting.tasks, (t) => t.name));
  }
  return parts.filter(known);
}

// `all`: what has a rate, an intensity, flops, bytes and a share; `what` each is, `name` how it is called.
function roofline(roof, what, all, name) {
  const shown = all.filter((t) => known(t.rate) && t.intensity);
  const limit = (x) => Math.min(roof.flops, x * roof.bytes);
  const share = (t) => (t.reached ? t.reached.share : null);
  return [
    el("p", {}, `The machine's roof is ${roof.source}: ${number(roof.flops / 1e9, 0)} GFLOP/s of f32 and ${number(roof.bytes / 1e9)} GB/s of memory. `,
      roof.source === "estimated" ? "It follows from the target's facts and usual rates of such cores; --measure-peak measures it instead. " : "",
      "Bytes are those of inputs and outputs, each once; operations are those of the definition."),
    chart("Roofline: operations per byte against operations per second", () => {
      const xs = shown.map((t) => t.intensity).concat(roof.flops / roof.bytes);
      const [low, high] = [Math.min(...xs) / 3, Math.max(...xs) * 3];
      const ridge = roof.flops / roof.bytes;
      const at = [low, ridge, high];
      return {
        data: [
          { type: "scatter", mode: "lines", name: `roof (${roof.source})`, x: at, y: at.map((x) => limit(x) / 1e9), line: { color: colour("other"), width: 3, dash: roof.source === "estimated" ? "dash" : "solid" }, hoverinfo: "skip" },
          {
            type: "scatter", mode: "markers", name: what, x: shown.map((t) => t.intensity), y: shown.map((t) => t.rate / 1e9),
            marker: { color: colour("series"), size: shown.map((t) => 8 + 30 * Math.sqrt(t.share || 0)), opacity: 0.75, line: { color: colour("ink"), width: 1 } },
            text: shown.map((t) => plain(`${short(name(t), 60)}\n`) + `<br>${number(t.rate / 1e9)} GFLOP/s, ${percent(share(t))} of the roof${t.reached.why ? plain(` (${t.reached.why})`) : ""}, ${percent(t.share)} of the time`),
            hovertemplate: "%{text}<extra></extra>",
          },
        ],
        layout: { xaxis: logAxis("FLOP / byte", [low, high]), yaxis: logAxis("GFLOP/s", [...at.map(limit), ...shown.map((t) => t.rate)]) },
      };
    }, 30),
    table(`${what === "task" ? "Tasks" : "Kernels"} under the roof; a larger dot takes more of the network's time`, [
      { name: what, value: name, left: true },
      { name: "MFLOP", value: (t) => t.flops / 1e6, show: (t) => number(t.flops / 1e6, 2) },
      { name: "KB", value: (t) => t.bytes / 1e3, show: (t) => number(t.bytes / 1e3) },
      { name: "FLOP / byte", value: (t) => t.intensity, show: (t) => number(t.intensity, 2) },
      { name: "GFLOP/s", value: (t) => t.rate, show: (t) => number(known(t.rate) ? t.rate / 1e9 : null) },
      { name: "of the roof", value: share, show: (t) => percent(share(t)) },
      { name: "bound by", value: (t) => (t.intensity < roof.flops / roof.bytes ? "memory" : "arithmetic"), left: true },
      ...(all.some((t) => t.reached && t.reached.why) ? [{ name: "above the roof, because", value: (t) => (t.reached && t.reached.why) || NONE, left: true }] : []),
    ], all),
  ];
}

function programsPanel(setting) {
  const tasks = setting.tasks.filter((t) => t.winner || t.plain);
  const place = el("div", {});
  const show = (task) => {
    remember("programs", task.key);
    place.replaceChildren(...programPair(task));
  };
  const task = tasks.find((t) => t.key === recall("programs")) || tasks[0];
  if (!task) return [el("p", {}, "No task has a program to show.")];
  place.replaceChildren(...programPair(task));
  return [taskChoice(setting, tasks, "program-task", task, null, show), place];
}

function programPair(task) {
  const column = (title, listing) => {
    if (!listing) return el("section", { "aria-label": title }, el("h3", {}, title), el("p", {}, "There is none."));
    const texts = [["Loops", listing.loops], ["What they ask of the machine", listing.explanation], ["Decisions", listing.decisions]].filter((x) => x[1]);
    return el("section", { "aria-label": title },
      el("h3", {}, `${title}${listing.formulation ? ` (${listing.formulation})` : ""}: ${known(listing.seconds) ? time(listing.seconds) : "not timed"}`),
      el("p", { class: "note" }, `candidate ${listing.candidate}`),
      texts.map(([name, text]) => [el("h3", {}, name), el("pre", { tabindex: "0", "aria-label": `${name} of the ${title.toLowerCase()}` }, text)]));
  };
  const same = task.winner && task.plain && task.winner.candidate === task.plain.candidate;
  return [
    el("h2", {}, task.name),
    task.winner ? null : el("p", {}, "No program of this task was timed."),
    task.differences.length ? el("div", {}, el("h3", {}, "From the default schedule to the winner"), changeList(task.differences)) : null,
    same ? column("The default schedule is the winner", task.winner) : el("div", { class: "pair" }, column("Winner", task.winner), column("Default schedule", task.plain)),
  ].filter(known);
}

function failuresPanel(setting) {
  const rows = setting.tasks.flatMap((t) => t.failures.map((f) => ({ t, f })));
  const failed = rows.reduce((sum, r) => sum + r.f.count, 0);
  const head = el("p", {}, `${number(failed, 0)} of ${number(setting.trials, 0)} trials failed. `,
    failed ? "A failure costs a little time and is never used; candidates that crashed or gave a wrong answer are not trusted again." : "");
  if (!failed) return [head];
  const causes = new Map();
  for (const { f } of rows) {
    const key = f.cause ? `${f.status}: ${f.cause}` : f.status;
    causes.set(key, (causes.get(key) || 0) + f.count);
  }
  const bar = [...causes].map(([name, count]) => ({ name, count })).sort((a, b) => b.count - a.count);
  return [
    head,
    chart("Failures by cause", () => {
      const found = bars(bar, (b) => b.name, [{ name: "trials", value: (b) => b.count, text: (b) => String(b.count), colour: colour("bad") }]);
      found.layout.xaxis = axis("trials");
      return found;
    }, barHeight(bar)),
    table("Failures by task and cause, with the first example", [
      { name: "task", value: (r) => r.t.name, left: true },
      { name: "status", value: (r) => r.f.status, left: true },
      { name: "cause", value: (r) => r.f.cause, left: true },
      { name: "trials", value: (r) => r.f.count },
      { name: "example", value: (r) => r.f.example, left: true },
      { name: "its decisions", value: (r) => r.f.decisions, show: (r) => el("code", {}, r.f.decisions), left: true },
    ], rows),
  ];
}

function forecastsPanel(setting) {
  const tasks = setting.tasks.filter((t) => t.forecasts.length);
  if (!tasks.length) return [el("p", {}, "No candidate was timed.")];
  return [
    el("p", {}, "Before anything is measured, the search trusts an analytic estimate (the prior). Dots on the line were forecast exactly; what counts for a search is the order. ",
      "Up to 48 candidates of each task are shown, from its fastest to its slowest."),
    chart("Expected by the prior against measured", () => {
      const all = tasks.flatMap((t) => t.forecasts.flatMap((f) => [f.expected, f.measured])).map((s) => s * MICRO);
      const ends = [Math.min(...all) / 1.3, Math.max(...all) * 1.3];
      return {
        data: [
          { type: "scatter", mode: "lines", name: "as expected", x: ends, y: ends, line: { color: colour("other"), dash: "dash" }, hoverinfo: "skip" },
          ...tasks.map((t) => ({
            type: "scatter", mode: "markers", name: plain(short(t.name)), x: t.forecasts.map((f) => f.measured * MICRO), y: t.forecasts.map((f) => f.expected * MICRO),
            marker: { size: 7, opacity: 0.75 }, text: t.forecasts.map((f) => plain(`${short(t.name, 60)}: measured ${time(f.measured)}, expected ${time(f.expected)}`)), hovertemplate: "%{text}<extra></extra>",
          })),
        ],
        layout: { xaxis: logAxis("measured, \u00b5s", ends), yaxis: logAxis("expected, \u00b5s", ends), showlegend: tasks.length <= 12 },
      };
    }, 32),
    table("How good the prior was", [
      { name: "task", value: (t) => t.name, left: true },
      { name: "candidates", value: (t) => t.forecasts.length },
      { name: "pairs in the right order", value: (t) => t.in_order, show: (t) => percent(t.in_order) },
      { name: "expected / measured (median)", value: (t) => median(t.forecasts.map((f) => f.expected / f.measured)), show: (t) => times(median(t.forecasts.map((f) => f.expected / f.measured))) },
    ], tasks),
  ];
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

function beforePanel(setting, report) {
  const rows = setting.tasks.filter((t) => known(t.before) && known(t.seconds));
  const faster = (t) => t.before / t.seconds;
  return [
    facts([["without a search", time(setting.before)], ["with the best records", time(setting.after)], ["faster", times(setting.before / setting.after)]]),
    el("p", {}, "The sum over all tasks of calls times seconds. Tasks without a record count alike on both sides."),
    chart("Time of all calls of each task", () => {
      const found = bars(rows, (t) => t.name, [
        { name: "without a search", value: (t) => t.weight * t.before * MICRO, text: (t) => time(t.weight * t.before), colour: colour("third") },
        { name: "best record", value: (t) => t.weight * t.seconds * MICRO, text: (t) => time(t.weight * t.seconds), colour: colour("series") },
      ]);
      found.layout.xaxis = axis("\u00b5s");
      return found;
    }, barHeight(rows, 2)),
    table("Before and after, by task", [
      { name: "task", value: (t) => t.name, left: true },
      { name: "calls", value: (t) => t.weight },
      { name: "before", value: (t) => t.before, show: (t) => time(t.before) },
      { name: "after", value: (t) => t.seconds, show: (t) => time(t.seconds) },
      { name: "faster", value: faster, show: (t) => el("span", { class: faster(t) >= 1 ? "good" : "bad" }, times(faster(t))) },
      ...(rows.every((t) => t.source === "alone") ? [] : [ // else they would be the same columns again
        { name: "alone, before", value: (t) => t.default, show: (t) => time(t.default) },
        { name: "alone, after", value: (t) => t.best, show: (t) => time(t.best) },
      ]),
      { name: "timed", value: (t) => t.source, left: true },
      { name: "before is the", value: (t) => (t.source === "alone" ? t.default_is : "default schedule"), left: true },
    ], rows),
  ];
}

function machinePanel(setting, report) {
  const parts = [];
  if (setting) {
    parts.push(
      el("h2", {}, "The machine of the records"),
      list([["target", setting.target], ["timing", setting.timing], ...setting.facts]),
      el("h2", {}, "Its roof"),
      list(roofFacts(setting.roof)),
      el("h2", {}, "The records"),
      list([["file", report.source], ["trials", number(setting.trials, 0)], ["first", day(setting.first)], ["last", day(setting.last)],
        ...report.skipped.map(([reason, count]) => ["left out", `${count} \u00d7 ${reason}`])]),
    );
  }
  if (report.roof) {
    parts.push(el("h2", {}, "The machine of the profile"), list([...report.facts, ...roofFacts(report.roof)]));
  }
  parts.push(el("h2", {}, "What made this page"), list([["made", day(report.made)], ...report.versions]));
  return parts;
}

function roofFacts(roof) {
  return [["f32 operations", `${number(roof.flops / 1e9, 0)} GFLOP/s (${roof.source})`], ["memory", `${number(roof.bytes / 1e9)} GB/s (${roof.source})`]];
}
