// Draws the figures of the report: one plot for each element of class "plot", from the data beside it.
"use strict";
(() => {
  // Distinct also with deficient colour vision (Okabe and Ito).
  const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#7f7f7f"];
  const dashes = [[], [6, 4], [2, 3]];
  const data = JSON.parse(document.getElementById("data").textContent);
  const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim() || "#000";
  const grid = getComputedStyle(document.documentElement).getPropertyValue("--line").trim() || "#ccc";

  // Plain figures: 0.5, 12, 1 500, 2.1e6.
  const number = (v) => {
    if (v === null || v === undefined) return "";
    const a = Math.abs(v);
    if (a !== 0 && (a >= 1e6 || a < 1e-3)) return v.toExponential(1);
    return v.toLocaleString("en", { maximumFractionDigits: a < 10 ? 3 : a < 100 ? 1 : 0 });
  };

  const columns = (figure, rows) => {
    const own = rows.filter((row) => row.figure === figure.id);
    const xs = [...new Set(own.map((row) => row.x))].sort((a, b) => a - b);
    const subjects = [...new Set(own.map((row) => row.subject))];
    const lines = [];
    subjects.forEach((subject, s) => {
      figure.draw.forEach((value, d) => {
        const at = new Map(own.filter((row) => row.subject === subject).map((row) => [row.x, row[value]]));
        const ys = xs.map((x) => {
          const y = at.get(x);
          // A logarithm has no place for zero.
          return typeof y !== "number" || (figure.log && y <= 0) ? null : y / figure.divide;
        });
        if (ys.every((y) => y === null)) return;
        const label = figure.draw.length > 1 ? subject + " " + value.replace(/_ns$/, "") : subject;
        lines.push({ label, ys, colour: colours[s % colours.length], dash: dashes[d % dashes.length] });
      });
    });
    return { xs, lines };
  };

  // A figure with one place on its horizontal axis has no line to draw: a bar for each value, from zero.
  const bars = (place, figure, lines) => {
    const most = Math.max(...lines.map((line) => line.ys[0] ?? 0));
    place.classList.add("bars");
    for (const line of lines) {
      const cell = (kind, text) => {
        const element = document.createElement("span");
        element.className = kind;
        element.textContent = text;
        place.append(element);
        return element;
      };
      cell("label", line.label);
      const fill = cell("bar", "").appendChild(document.createElement("span"));
      fill.style.width = (100 * (line.ys[0] ?? 0)) / most + "%";
      fill.style.background = line.colour;
      if (line.dash.length) fill.style.opacity = 0.5;
      cell("value", number(line.ys[0]));
    }
    const unit = document.createElement("p");
    unit.className = "soft";
    unit.textContent = figure.y;
    place.append(unit);
  };

  const draw = (place) => {
    const experiment = data.find((e) => e.verdict.experiment === place.dataset.experiment);
    const figure = experiment.figures[Number(place.dataset.figure)];
    const { xs, lines } = columns(figure, experiment.rows);
    if (xs.length === 1 && lines.length) return bars(place, figure, lines);
    const wide = xs[0] > 0 && xs[xs.length - 1] / xs[0] >= 500;
    const axis = (label) => ({ label, stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid }, values: (_, all) => all.map(number) });
    const options = {
      width: Math.max(320, place.clientWidth),
      height: 320,
      scales: { x: { time: false, distr: wide ? 3 : 1 }, y: figure.log ? { distr: 3 } : { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
      axes: [axis(figure.x), { ...axis(figure.y), size: 70 }],
      series: [
        { label: figure.x, value: (_, v) => number(v) },
        ...lines.map((line) => ({
          label: line.label, stroke: line.colour, width: 2, dash: line.dash, spanGaps: true,
          points: { show: true, size: 6 }, value: (_, v) => number(v),
        })),
      ],
    };
    const plot = new uPlot(options, [xs, ...lines.map((line) => line.ys)], place);
    new ResizeObserver(() => plot.setSize({ width: Math.max(320, place.clientWidth), height: 320 })).observe(place);
  };

  const when = document.getElementById("when");
  when.textContent = new Date(Number(when.dataset.seconds) * 1000).toISOString().replace("T", " ").slice(0, 16) + " UTC";
  document.querySelectorAll(".plot").forEach(draw);
})();
