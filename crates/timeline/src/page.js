'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const canvas = document.getElementById('lines');
const tip = document.getElementById('tip');
const pen = canvas.getContext('2d');
const LEFT = 190, TOP = 30, ROW = 34, HEAD = 22, BOTTOM = 8;
const span = Math.max(data.span, 1000);
const first = Math.min(data.cut, span - 1000);
let from = first, to = span;

// A header line for each channel where there are several.
const places = [];
let height = TOP;
data.rows.forEach((row, i) => {
  if (data.channels.length > 1 && (i === 0 || data.rows[i - 1].channel !== row.channel)) {
    places.push({ header: data.channels[row.channel], y: height });
    height += HEAD;
  }
  places.push({ row, y: height });
  height += ROW;
});
height += BOTTOM;

// A length or point of time in the unit that suits it, or in the one of `like`.
const UNITS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
const unitOf = (ns) => UNITS.find(([unit]) => ns >= unit) || UNITS[2];
const number = (n, digits) => n.toLocaleString('en', { maximumFractionDigits: digits });
const inTable = (ns) => { const [unit, name] = unitOf(ns); return (ns / unit).toFixed(name === 'µs' ? 1 : 3) + ' ' + name; };
const time = (ns, like = ns) => { const [unit, name] = unitOf(like); return number(ns / unit, 3) + ' ' + name; };
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const xOf = (at) => LEFT + (at - from) / (to - from) * (canvas.clientWidth - LEFT - 12);
const atOf = (x) => from + (x - LEFT) / (canvas.clientWidth - LEFT - 12) * (to - from);

// The first in a sorted list that does not end before `at`; runs of a row are served one after the other.
function firstFrom(list, at, end) {
  let low = 0, high = list.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (end(list[mid]) < at) low = mid + 1; else high = mid;
  }
  return low;
}

function axis(width, ink) {
  const rough = (to - from) / Math.max(2, (width - LEFT) / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const [unit, name] = unitOf(to - from < 2e9 ? (to - from) / 2 : to - from);
  pen.font = '12px system-ui, sans-serif';
  pen.textAlign = 'center';
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const x = Math.round(xOf(at)) + 0.5;
    pen.strokeStyle = ink.line;
    pen.beginPath(); pen.moveTo(x, TOP - 6); pen.lineTo(x, height); pen.stroke();
    pen.fillStyle = ink.soft;
    pen.fillText(number(at / unit, 6), x, 16);
  }
  pen.textAlign = 'left';
  pen.fillText('time in ' + name, 8, 16);
}

function drawRow(row, y, width, ink) {
  const bar = row.channel % 2 ? ink['bar-other'] : ink.bar;
  const middle = y + ROW / 2;
  // What falls into one pixel is drawn once.
  let last = -1;
  for (let i = firstFrom(row.runs, from, (run) => run[1]); i < row.runs.length && row.runs[i][0] <= to; i++) {
    const [start, end, , , late, flags, overran, gaps] = row.runs[i];
    const x = Math.max(xOf(start), LEFT), right = Math.min(xOf(end), width);
    if (late === 0 && !overran && right < last + 1) continue;
    last = Math.max(x + 1, right);
    pen.fillStyle = bar;
    pen.globalAlpha = flags & 2 ? 0.5 : 1;
    pen.fillRect(x, middle - 7, Math.max(1.5, right - x), 14);
    pen.globalAlpha = 1;
    for (const [g0, g1] of gaps) {
      const a = Math.max(xOf(g0), LEFT), b = Math.min(xOf(g1), width);
      if (b <= a) continue;
      pen.fillStyle = ink.back; pen.fillRect(a, middle - 7, b - a, 14);
      pen.fillStyle = ink.gap; pen.fillRect(a, middle - 2, Math.max(1, b - a), 4);
    }
    if (overran) { pen.fillStyle = ink.lost; pen.fillRect(x, middle + 8, Math.max(2, right - x), 3); }
    if (flags & 1) { pen.fillStyle = ink.miss; pen.fillRect(x, middle - 1, Math.max(2, right - x), 2); }
    if (late > 0 && xOf(end) >= LEFT) {
      pen.fillStyle = ink.miss;
      pen.fillRect(right - 1, y + 3, 2.5, ROW - 6);
      const text = '−' + time(late);
      const next = row.runs.slice(i + 1).find((run) => run[4] > 0);
      if (!next || xOf(next[1]) - right > pen.measureText(text).width + 6) pen.fillText(text, right + 4, y + 12);
    }
  }
  pen.strokeStyle = ink.push;
  last = -1;
  for (let i = firstFrom(row.pushes, from, (push) => push[0]); i < row.pushes.length && row.pushes[i][0] <= to; i++) {
    const x = Math.round(xOf(row.pushes[i][0])) + 0.5;
    if (x === last) continue;
    last = x;
    pen.beginPath(); pen.moveTo(x, y + 4); pen.lineTo(x, y + ROW - 4); pen.stroke();
  }
  for (let i = firstFrom(row.marks, from, (mark) => mark[0]); i < row.marks.length && row.marks[i][0] <= to; i++) {
    const [at, what, , deadline] = row.marks[i];
    const x = xOf(at);
    pen.fillStyle = what === 'lost' ? ink.lost : deadline ? ink.ink : ink.soft;
    pen.beginPath(); pen.moveTo(x, middle - 8); pen.lineTo(x - 4, y + 1); pen.lineTo(x + 4, y + 1); pen.fill();
  }
}

function draw() {
  const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + 'px';
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  const ink = {};
  for (const name of ['ink', 'back', 'soft', 'line', 'band', 'bar', 'bar-other', 'gap', 'miss', 'push', 'lost']) ink[name] = colour(name);
  pen.clearRect(0, 0, width, height);
  places.forEach(({ y, header }, i) => {
    if (i % 2) { pen.fillStyle = ink.band; pen.fillRect(0, y, width, header === undefined ? ROW : HEAD); }
  });
  axis(width, ink);
  for (const { row, header, y } of places) {
    if (header !== undefined) {
      pen.fillStyle = ink.soft; pen.font = '600 12px system-ui, sans-serif';
      pen.fillText(header, 8, y + 15);
      continue;
    }
    pen.font = '13px system-ui, sans-serif';
    pen.fillStyle = ink.ink;
    pen.fillText(row.name, 14, y + ROW / 2 + 4, LEFT - 24);
    pen.save();
    pen.beginPath(); pen.rect(LEFT, y, width - LEFT, ROW); pen.clip();
    pen.font = '11px system-ui, sans-serif';
    drawRow(row, y, width, ink);
    pen.restore();
  }
}

let asked = false;
function show(newFrom, newTo) {
  const wide = Math.min(Math.max(newTo - newFrom, 1000), span - first);
  from = Math.min(Math.max(newFrom, first), span - wide);
  to = from + wide;
  if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; draw(); }); }
}
function zoom(factor, around) {
  show(around - (around - from) * factor, around + (to - around) * factor);
}

// What stands under the pointer, as lines of text.
function under(x, y) {
  const place = places.find((p) => p.row && y >= p.y && y < p.y + ROW);
  if (!place || x < LEFT) return null;
  const row = place.row, near = (to - from) / canvas.clientWidth * 4, at = atOf(x);
  const close = (list, when) => list.filter((one) => Math.abs(when(one) - at) <= near)
    .sort((a, b) => Math.abs(when(a) - at) - Math.abs(when(b) - at))[0];
  const lines = [];
  let run;
  for (let i = firstFrom(row.runs, at - near, (r) => r[1]); i < row.runs.length && row.runs[i][0] <= at + near; i++) {
    if (!run || row.runs[i][0] <= at) run = row.runs[i];
  }
  if (run) {
    const [start, end, waited, thread, late, flags, overran, gaps] = run;
    const away = gaps.reduce((sum, [a, b]) => sum + b - a, 0);
    lines.push(`${row.name}, level ${row.level}`, `from ${time(start, end)} to ${time(end)}: ran for ${time(end - start - away)}`,
      `its event waited ${time(waited)}`, `on ${data.threads[thread]}`);
    if (gaps.length) lines.push(`pre-empted ${gaps.length === 1 ? 'once' : gaps.length + ' times'}, ${time(away)} in all, by ` +
      [...new Set(gaps.map(([, , by]) => data.rows[by].name))].join(', '));
    if (late) lines.push(`deadline missed by ${time(late)}`);
    if (overran) lines.push(`used ${time(overran[0])} of processor time, declared ${time(overran[1])}`);
    if (flags & 1) lines.push('failed');
    if (flags & 2) lines.push('not recorded from begin to end');
    if (flags & 4) lines.push('changed its processor: pre-emptions are not known');
  }
  const push = close(row.pushes, (p) => p[0]);
  if (push) lines.push(`${row.name} pushed type ${push[1]}, source ${push[2]} at ${time(push[0])}`);
  const mark = close(row.marks, (m) => m[0]);
  const lost = ['its queue was full', 'no copy was free', 'it was too large', 'skipped after an overrun'];
  if (mark) lines.push(mark[1] === 'lost' ? `an event was lost at ${time(mark[0])}: ${lost[mark[2]] || 'unknown reason'}`
    : `${mark[3] ? 'deadline time-out' : 'interval'} at ${time(mark[0])}, noticed after ${time(mark[2])}`);
  return lines.length ? lines.join('\n') : null;
}

let drag = null;
canvas.addEventListener('pointerdown', (e) => { drag = { x: e.offsetX, from, to }; canvas.setPointerCapture(e.pointerId); });
canvas.addEventListener('pointerup', () => { drag = null; });
canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
canvas.addEventListener('pointermove', (e) => {
  if (drag) {
    const by = (e.offsetX - drag.x) / (canvas.clientWidth - LEFT - 12) * (drag.to - drag.from);
    show(drag.from - by, drag.to - by);
    return;
  }
  const text = under(e.offsetX, e.offsetY);
  tip.hidden = text === null;
  if (text === null) return;
  tip.textContent = text;
  const left = e.offsetX + 14 + tip.offsetWidth > canvas.clientWidth ? e.offsetX - tip.offsetWidth - 10 : e.offsetX + 14;
  tip.style.left = Math.max(0, left) + 'px';
  tip.style.top = Math.max(0, Math.min(e.offsetY + 14, height - tip.offsetHeight)) + 'px';
});
canvas.addEventListener('wheel', (e) => {
  e.preventDefault();
  if (Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey) {
    const by = (e.deltaX || e.deltaY) / canvas.clientWidth * (to - from);
    show(from + by, to + by);
  } else zoom(1.0018 ** e.deltaY, atOf(Math.max(e.offsetX, LEFT)));
}, { passive: false });
const misses = data.rows.flatMap((row) => row.runs.filter((run) => run[4] > 0)).map((run) => run[1]).sort((a, b) => a - b);
let missed = -1;
canvas.addEventListener('keydown', (e) => {
  const wide = to - from, middle = (from + to) / 2;
  const keys = {
    ArrowLeft: () => show(from - wide / 5, to - wide / 5), ArrowRight: () => show(from + wide / 5, to + wide / 5),
    '+': () => zoom(0.6, middle), '=': () => zoom(0.6, middle), '-': () => zoom(1 / 0.6, middle), 0: () => show(first, span),
    n: () => {
      if (!misses.length) return;
      missed = (missed + 1) % misses.length;
      const half = Math.min(wide, 40e6) / 2;
      show(misses[missed] - half, misses[missed] + half);
    },
  };
  const act = keys[e.key] || keys[e.key.toLowerCase()];
  if (act) { e.preventDefault(); act(); }
});
window.addEventListener('resize', () => show(from, to));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => show(from, to));

function add(parent, tag, text, kind) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (kind) element.className = kind;
  parent.append(element);
  return element;
}
const about = document.getElementById('about');
const total = (n) => data.rows.reduce((sum, row) => sum + row.numbers[n], 0);
const late = total(8);
add(about, 'span', `${(data.span / 1e9).toLocaleString('en', { maximumFractionDigits: 3 })} s, ${data.rows.length} rows, ` +
  `${total(0).toLocaleString('en')} events pushed, ${total(1).toLocaleString('en')} runs, `);
add(about, 'span', late ? `${late} deadline${late === 1 ? '' : 's'} missed` : 'no deadline missed', late ? 'bad' : '');
if (data.lost) add(about, 'span', `; ${data.lost.toLocaleString('en')} older records were overwritten or found no place`);
if (data.cut) add(about, 'span', `; too much to draw: shown from ${time(data.cut)} on`);

const legend = document.getElementById('legend');
for (const [name, text] of [['bar', 'running'], ['gap', 'pre-empted'], ['miss', 'deadline missed, and by how much'], ['push', 'event pushed'],
  ['lost', 'overrun, or event lost'], ['soft', 'interval'], ['ink', 'what was awaited stayed away']]) {
  const entry = add(legend, 'span', '');
  add(entry, 'i', '').style.background = `var(--${name})`;
  entry.append(text);
}
const table = document.getElementById('numbers');
const heads = ['row', 'level', 'pushed', 'runs', 'ran p50', 'ran max', 'response p50', 'response p99', 'response max', 'pre-empted', 'missed', 'lost'];
const top_ = add(table, 'tr', '');
heads.forEach((text) => add(top_, 'th', text));
let group = -1;
for (const row of data.rows) {
  if (data.channels.length > 1 && row.channel !== group) {
    group = row.channel;
    add(add(table, 'tr', ''), 'th', data.channels[group], 'channel').colSpan = heads.length;
  }
  const line = add(table, 'tr', '');
  [row.name, row.consumer ? row.level : ''].forEach((text) => add(line, 'td', text));
  row.numbers.forEach((n, i) => add(line, 'td', i >= 2 && i <= 6 ? (row.consumer ? inTable(n) : '') : n.toLocaleString('en'), i >= 8 && n ? 'bad' : ''));
}

// Of a long recording a part is shown first, in which single runs can be told apart: around the first missed deadline or pre-emption.
const most = Math.max(...data.rows.map((row) => row.runs.length), 1);
const part = (span - first) / most * 16;
if (part < (span - first) / 2) {
  const gaps = data.rows.flatMap((row) => row.runs.flatMap((run) => run[7].map((gap) => gap[0])));
  const at = misses.length ? misses[0] : gaps.length ? gaps.reduce((a, b) => Math.min(a, b)) : first;
  from = Math.min(Math.max(at - part / 2, first), span - part);
  to = from + part;
  add(about, 'span', `; ${time(Math.round(part / 1e5) * 1e5)} of it shown, press 0 for all`);
}
draw();
document.documentElement.dataset.rows = String(places.filter((place) => place.row).length);
document.documentElement.dataset.ready = 'yes';
