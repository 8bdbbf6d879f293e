'use strict';
// The view scrolls as any other does; zooming makes the picture in it wider.
const view = document.getElementById('view'), runs = document.getElementById('runs'), axis = document.getElementById('axis');
const tip = document.getElementById('tip');
const until = Number(runs.dataset.until);
const MOST = 400;
let scale = 1;

const UNITS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
function drawAxis() {
  const width = view.clientWidth * scale;
  const rough = until / Math.max(1, width / 95);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const [unit, name] = UNITS.find(([unit]) => step >= unit) ?? UNITS[3];
  let marks = '';
  for (let n = 0; n * step <= until; n++) {
    const x = (100 * n * step) / until;
    const place = n === 0 ? ' first' : (100 - x) / 100 * width < 40 ? ' last' : '';
    const text = `${((n * step) / unit).toLocaleString('en', { maximumFractionDigits: 3 })} ${name}`;
    marks += `<line class="grid" x1="${x}%" x2="${x}%" y1="22" y2="${axis.dataset.height}"/>`;
    marks += `<text class="time${place}" x="${x}%" y="15">${text}</text>`;
  }
  axis.innerHTML = marks;
}

// `x` stays where it is, in pixels of the view.
function zoom(factor, x = view.clientWidth / 2) {
  const at = (view.scrollLeft + x) / (view.clientWidth * scale);
  scale = Math.min(MOST, Math.max(1, scale * factor));
  runs.style.width = `${scale * 100}%`;
  drawAxis();
  view.scrollLeft = at * view.clientWidth * scale - x;
  view.dataset.scale = scale;
}
const move = (part) => view.scrollBy({ left: view.clientWidth * part });
const all = () => zoom(1 / scale);
const misses = [...document.querySelectorAll('#runs .deadline.late')];
let missed = -1;
function nextMiss() {
  missed = (missed + 1) % misses.length;
  if (scale < 4) zoom(4 / scale);
  view.scrollLeft = parseFloat(misses[missed].getAttribute('x')) / 100 * view.clientWidth * scale - view.clientWidth / 2;
}

const bar = document.getElementById('tools');
tool(bar, '+', 'zoom in', () => zoom(1.6));
tool(bar, '−', 'zoom out', () => zoom(1 / 1.6));
tool(bar, '◀', 'earlier', () => move(-0.4));
tool(bar, '▶', 'later', () => move(0.4));
tool(bar, 'All', 'show all', all);
if (misses.length) tool(bar, 'Next missed deadline', 'show the next missed deadline', nextMiss);
view.addEventListener('keydown', (e) => {
  const keys = { '+': () => zoom(1.6), '=': () => zoom(1.6), '-': () => zoom(1 / 1.6), 0: all, n: misses.length ? nextMiss : undefined };
  if (!e.ctrlKey && !e.metaKey && keys[e.key]) { e.preventDefault(); keys[e.key](); }
});

function showTip(target, x, y) {
  const text = target?.dataset?.t;
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8)) + 'px';
  tip.style.top = Math.min(y + 14, innerHeight - tip.offsetHeight - 8) + 'px';
}
const under = (x, y) => {
  const box = view.getBoundingClientRect();
  showTip(document.elementFromPoint(box.left + x, box.top + y), box.left + x, box.top + y);
};
gestures(view, { zoom: (factor, x) => zoom(1 / factor, x), hover: under, tap: under, leave: () => showTip(null) });
new ResizeObserver(drawAxis).observe(view);
drawAxis();
view.dataset.scale = scale;
