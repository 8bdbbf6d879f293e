'use strict';
// The recording, where its rows are, and times as text.
const data = JSON.parse(document.getElementById('data').textContent);
const canvas = document.getElementById('lines');
const tip = document.getElementById('tip');
const pen = canvas.getContext('2d');
const TOP = 30, HEAD = 24, PHASE = 24, BOTTOM = 8;
const span = Math.max(data.span, 1000);
const first = Math.min(data.cut, span - 1000);
let from = first, to = span;

// On a narrow page names stand above their rows.
let LEFT = 190, ROW = 46, MIDDLE = 25, height = 0;
const RIGHT = 12;
let places = [];
function layOut() {
  const narrow = canvas.clientWidth < 640;
  [LEFT, ROW, MIDDLE] = narrow ? [10, 64, 42] : [190, 46, 25];
  places = [];
  height = TOP;
  const put = (place, size) => { places.push({ ...place, y: height, size }); height += size; };
  data.channels.forEach((name, channel) => {
    if (data.channels.length > 1) put({ header: name, channel }, HEAD);
    const phases = data.phases.filter((phase) => phase[0] === channel);
    if (phases.length) put({ phases, channel }, PHASE);
    data.rows.forEach((row, index) => { if (row.channel === channel) put({ row, index, channel }, ROW); });
    for (const [, refused, why] of data.refused.filter((one) => one[0] === channel)) put({ refused, why, channel }, ROW);
  });
  height += BOTTOM;
}

// A length or point of time in the unit that suits it, or in the one of `like`.
const UNITS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
const unitOf = (ns) => UNITS.find(([unit]) => ns >= unit) || UNITS[2];
const number = (n, digits) => n.toLocaleString('en', { maximumFractionDigits: digits });
const inTable = (ns) => { const [unit, name] = unitOf(ns); return (ns / unit).toFixed(name === 'µs' ? 1 : 3) + ' ' + name; };
const time = (ns, like = ns) => { const [unit, name] = unitOf(like); return number(ns / unit, 3) + ' ' + name; };
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const xOf = (at) => LEFT + (at - from) / (to - from) * (canvas.clientWidth - LEFT - RIGHT);
const atOf = (x) => from + (x - LEFT) / (canvas.clientWidth - LEFT - RIGHT) * (to - from);

// The first in a sorted list that does not end before `at`; runs of a row are served one after the
// other.
function firstFrom(list, at, end) {
  let low = 0, high = list.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (end(list[mid]) < at) low = mid + 1; else high = mid;
  }
  return low;
}
// The runs that lie in the part shown.
function shownRuns(row) {
  const low = firstFrom(row.runs, from, (run) => run[1]);
  return [low, firstFrom(row.runs, to + 1, (run) => run[0])];
}

function add(parent, tag, text, kind) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (kind) element.className = kind;
  parent.append(element);
  return element;
}
