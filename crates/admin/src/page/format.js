'use strict';
// Numbers, times and histograms as text and pictures. Whatever has a name from elsewhere is written
// as text, never as markup.

const $ = (id) => document.getElementById(id);

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

const nothing = '–';
const count = (n) => (n === null || n === undefined ? nothing : n.toLocaleString('en'));
const rate = (n) => (n === null || n === undefined ? nothing : n.toLocaleString('en', { maximumFractionDigits: n < 10 ? 1 : 0 }));
const part = (n) => `${(n * 100).toFixed(1)} %`;

function time(ns) {
  if (ns === null || ns === undefined) return nothing;
  const size = Math.abs(ns);
  for (const [unit, length] of [['s', 1e9], ['ms', 1e6], ['µs', 1e3]]) {
    if (size >= length) return `${(ns / length).toPrecision(3)} ${unit}`;
  }
  return `${ns} ns`;
}

// Of a histogram the end of a bucket is known: what is said to be so long was shorter than that.
function under(times, figure) {
  if (!times || times.count === 0) return nothing;
  return times[figure] === null ? '> 4 min' : `< ${time(times[figure])}`;
}

// Buckets double; all tables have the same axis, 2^6 ns to 2^38 ns, so that rows can be compared.
const SVG = 'http://www.w3.org/2000/svg';
const [FIRST, LAST, WIDTH, HEIGHT] = [6, 39, 3, 22];
function histogram(times, what) {
  if (!times || times.count === 0) return document.createTextNode(nothing);
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('width', (LAST - FIRST + 1) * WIDTH);
  svg.setAttribute('height', HEIGHT);
  svg.setAttribute('role', 'img');
  svg.setAttribute('class', 'histogram');
  const bars = new Map();
  for (const [end, n] of times.buckets) {
    const bucket = end === null ? LAST : Math.min(LAST, Math.max(FIRST, Math.round(Math.log2(end))));
    bars.set(bucket, (bars.get(bucket) ?? 0) + n);
  }
  const most = Math.max(...bars.values());
  for (const [bucket, n] of bars) {
    const height = Math.max(1, (Math.log1p(n) / Math.log1p(most)) * HEIGHT);
    const bar = document.createElementNS(SVG, 'rect');
    bar.setAttribute('x', (bucket - FIRST) * WIDTH);
    bar.setAttribute('y', HEIGHT - height);
    bar.setAttribute('width', WIDTH - 1);
    bar.setAttribute('height', height);
    svg.append(bar);
  }
  const floor = document.createElementNS(SVG, 'line');
  for (const [name, value] of [['x1', 0], ['x2', '100%'], ['y1', HEIGHT - 0.5], ['y2', HEIGHT - 0.5]]) floor.setAttribute(name, value);
  svg.append(floor);
  const title = document.createElementNS(SVG, 'title');
  const buckets = times.buckets.map(([end, n]) => `${end === null ? 'longer' : `under ${time(end)}`}: ${count(n)}`);
  title.textContent = [`histogram of ${what}`, ...buckets].join('\n');
  svg.prepend(title);
  return svg;
}
