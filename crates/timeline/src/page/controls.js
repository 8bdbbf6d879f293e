'use strict';
// What moves the picture: buttons, keys, pointers and fingers.
let selected = null;
const placeOf = (row) => places.find((place) => place.row === row);

let drawing = false;
function show(newFrom, newTo) {
  const wide = Math.min(Math.max(newTo - newFrom, 1000), span - first);
  from = Math.min(Math.max(newFrom, first), span - wide);
  to = from + wide;
  [canvas.dataset.from, canvas.dataset.to] = [Math.round(from), Math.round(to)];
  if (!drawing) { drawing = true; requestAnimationFrame(() => { drawing = false; draw(); }); }
}
const zoom = (factor, around) => show(around - (around - from) * factor, around + (to - around) * factor);
const move = (part) => show(from + (to - from) * part, to + (to - from) * part);
const misses = data.rows.flatMap((row) => row.runs.filter((run) => run[4] > 0)).map((run) => run[1]).sort((a, b) => a - b);
let missed = -1;
function nextMiss() {
  if (!misses.length) return;
  missed = (missed + 1) % misses.length;
  const half = Math.min(to - from, 40e6) / 2;
  show(misses[missed] - half, misses[missed] + half);
}

// The keyboard chooses a row, and a run in it; its numbers are shown, and spoken.
function select(row, run) {
  if (!row?.runs.length) return;
  run = Math.min(Math.max(run, 0), row.runs.length - 1);
  selected = { row, run };
  const [start, end] = row.runs[run];
  const wide = Math.max(to - from, (end - start) * 1.2);
  if (start < from || end > to) show((start + end - wide) / 2, (start + end + wide) / 2); else show(from, to);
  showTip(aboutRun(row, row.runs[run]).join('\n'), Math.max(xOf((start + end) / 2), LEFT), placeOf(row).y + MIDDLE);
}
function selectRow(step) {
  const rows = data.rows.filter((row) => row.runs.length);
  if (!rows.length) return;
  const at = selected ? rows.indexOf(selected.row) + step : step > 0 ? 0 : rows.length - 1;
  const row = rows[(at + rows.length) % rows.length];
  select(row, firstFrom(row.runs, selected ? selected.row.runs[selected.run][0] : from, (run) => run[1]));
}

const actions = {
  '+': () => zoom(0.6, (from + to) / 2), '-': () => zoom(1 / 0.6, (from + to) / 2), 0: () => show(first, span),
  ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), n: nextMiss,
  ArrowUp: () => selectRow(-1), ArrowDown: () => selectRow(1),
  ',': () => (selected ? select(selected.row, selected.run - 1) : selectRow(1)),
  '.': () => (selected ? select(selected.row, selected.run + 1) : selectRow(1)),
  Escape: () => { selected = null; showTip(null); show(from, to); },
};
actions['='] = actions['+'];
canvas.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.altKey || e.metaKey) return;
  const act = actions[e.key] || actions[e.key.toLowerCase()];
  if (act) { e.preventDefault(); act(); }
});

const bar = document.getElementById('tools');
tool(bar, '+', 'zoom in', actions['+']);
tool(bar, '−', 'zoom out', actions['-']);
tool(bar, '◀', 'earlier', actions.ArrowLeft);
tool(bar, '▶', 'later', actions.ArrowRight);
tool(bar, 'All', 'show all', actions[0]);
if (misses.length) tool(bar, 'Next missed deadline', 'show the next missed deadline', nextMiss);
for (const [, begin, until, caption] of data.phases) {
  const half = (until - begin) * 0.75;
  tool(bar, caption, `show the phase: ${caption}`, () => show((begin + until) / 2 - half, (begin + until) / 2 + half));
}

gestures(canvas, {
  pan: (dx) => { const by = dx / (canvas.clientWidth - LEFT - RIGHT) * (to - from); showTip(null); show(from - by, to - by); },
  zoom: (factor, x) => { showTip(null); zoom(factor, atOf(Math.max(x, LEFT))); },
  hover: (x, y) => showTip(under(x, y), x, y),
  tap: (x, y) => showTip(under(x, y, 14), x, y),
  leave: () => showTip(null),
});

// Of a long recording a part is shown first, in which single runs can be told apart: around the
// first missed deadline or pre-emption.
const most = Math.max(...data.rows.map((row) => row.runs.length), 1);
const part = (span - first) / most * 16;
if (part < (span - first) / 2) {
  const gaps = data.rows.flatMap((row) => row.runs.flatMap((run) => run[7].map((gap) => gap[0])));
  const at = misses.length ? misses[0] : gaps.length ? gaps.reduce((a, b) => Math.min(a, b)) : first;
  from = Math.min(Math.max(at - part / 2, first), span - part);
  to = from + part;
  add(about, 'span', `; ${time(Math.round(part / 1e5) * 1e5)} of it shown, press 0 for all`);
}
[canvas.dataset.from, canvas.dataset.to] = [Math.round(from), Math.round(to)];
const redraw = () => { drawLegend(); show(from, to); };
new ResizeObserver(redraw).observe(document.getElementById('stage'));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
drawLegend();
draw();
document.documentElement.dataset.rows = String(places.filter((place) => place.row).length);
document.documentElement.dataset.ready = 'yes';
