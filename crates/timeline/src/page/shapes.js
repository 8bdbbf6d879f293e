'use strict';
// Every state has a shape of its own beside its colour. `x` to `right` is its extent, `y` the
// middle of its row.
const BAR = 7;
const path = (p, ...points) => { p.beginPath(); points.forEach(([x, y], i) => (i ? p.lineTo(x, y) : p.moveTo(x, y))); };
function hatch(p, x, right, top, bottom, step) {
  p.save();
  p.beginPath(); p.rect(x, top, right - x, bottom - top); p.clip();
  p.beginPath();
  for (let at = Math.floor((x - bottom + top) / step) * step; at < right; at += step) {
    p.moveTo(at, bottom);
    p.lineTo(at + bottom - top, top);
  }
  p.stroke();
  p.restore();
}
function arrow(p, x, tail, head) {
  const way = Math.sign(head - tail);
  path(p, [x, tail], [x, head]); p.stroke();
  path(p, [x - 3.5, head - way * 5], [x, head], [x + 3.5, head - way * 5]); p.stroke();
}

const SHAPES = {
  running: { text: 'running', draw(p, x, right, y, ink) {
    p.fillStyle = ink.bar;
    p.fillRect(x, y - BAR, Math.max(1.5, right - x), 2 * BAR);
  } },
  waiting: { text: 'waiting: released, not yet running', draw(p, x, right, y, ink) {
    p.strokeStyle = ink.bar; p.lineWidth = 1.2;
    p.strokeRect(x, y - 3, Math.max(1, right - x), 6);
  } },
  preempted: { text: 'pre-empted', draw(p, x, right, y, ink) {
    p.fillStyle = ink.back; p.fillRect(x, y - BAR, right - x, 2 * BAR);
    p.strokeStyle = ink.gap; p.lineWidth = 1.6;
    hatch(p, x, right, y - BAR + 2, y + BAR - 2, 6);
    path(p, [x, y - BAR + 1], [right, y - BAR + 1]); p.stroke();
    path(p, [x, y + BAR - 1], [right, y + BAR - 1]); p.stroke();
  } },
  release: { text: 'release', draw(p, x, right, y, ink) {
    p.strokeStyle = ink.soft; p.lineWidth = 1.4;
    arrow(p, x, y + BAR + 3, y - BAR - 6);
  } },
  deadline: { text: 'deadline', draw(p, x, right, y, ink) {
    p.strokeStyle = ink.ink; p.lineWidth = 1.4;
    arrow(p, x, y - BAR - 6, y + BAR + 5);
  } },
  missed: { text: 'end after the deadline, and how late', draw(p, x, right, y, ink) {
    p.fillStyle = ink.miss; p.fillRect(x - 1, y - BAR - 10, 3, 2 * BAR + 16);
    p.strokeStyle = ink.miss; p.lineWidth = 2;
    path(p, [x - 3.5, y + BAR + 2], [x + 4.5, y + BAR + 9]); p.stroke();
    path(p, [x + 4.5, y + BAR + 2], [x - 3.5, y + BAR + 9]); p.stroke();
  } },
  pushed: { text: 'event pushed', draw(p, x, right, y, ink) {
    p.strokeStyle = p.fillStyle = ink.push; p.lineWidth = 1;
    path(p, [x, y - BAR - 6], [x, y + BAR + 5]); p.stroke();
    path(p, [x, y - BAR - 11], [x + 4, y - BAR - 6], [x, y - BAR - 1], [x - 4, y - BAR - 6]); p.fill();
  } },
  cause: { text: 'from the push to the run that it released', draw(p, x, right, y, ink, down = 0) {
    p.strokeStyle = p.fillStyle = ink.push; p.lineWidth = 1.2;
    const bend = Math.min(36, Math.max(10, Math.abs(down) / 4));
    p.beginPath(); p.moveTo(x, y);
    p.bezierCurveTo(x + bend, y + down * 0.3, right + bend, y + down * 0.7, right + 1, y + down);
    p.stroke();
    path(p, [right, y + down], [right + 7, y + down - 4 * (Math.sign(down) || 1)], [right + 7, y + down + 3]); p.fill();
  } },
  overrun: { text: 'used more processor time than declared', draw(p, x, right, y, ink) {
    p.strokeStyle = ink.lost; p.lineWidth = 1.8;
    const points = [];
    for (let at = x, up = 0; at <= Math.max(right, x + 6); at += 3, up ^= 1) points.push([at, y + BAR + (up ? 2 : 6)]);
    path(p, ...points); p.stroke();
  } },
  failed: { text: 'the consumer failed', draw(p, x, right, y, ink) {
    p.fillStyle = ink.miss; p.strokeStyle = ink.back; p.lineWidth = 1.6;
    const at = Math.max(x + 5, right - 5);
    p.fillRect(at - 6, y - 6, 12, 12);
    path(p, [at - 3, y - 3], [at + 3, y + 3]); p.stroke();
    path(p, [at + 3, y - 3], [at - 3, y + 3]); p.stroke();
  } },
  incomplete: { text: 'not recorded from begin to end', draw(p, x, right, y, ink) {
    p.strokeStyle = ink.bar; p.lineWidth = 1.6; p.setLineDash([4, 3]);
    p.strokeRect(x, y - BAR, Math.max(2, right - x), 2 * BAR);
    p.setLineDash([]);
  } },
  lost: { text: 'event lost', draw(p, x, right, y, ink) {
    p.fillStyle = ink.lost; p.strokeStyle = ink.back; p.lineWidth = 1.4;
    p.fillRect(x - 5, y - BAR - 12, 10, 10);
    path(p, [x - 3, y - BAR - 10], [x + 3, y - BAR - 4]); p.stroke();
    path(p, [x + 3, y - BAR - 10], [x - 3, y - BAR - 4]); p.stroke();
  } },
  interval: { text: 'interval timer', draw(p, x, right, y, ink) {
    p.strokeStyle = ink.soft; p.lineWidth = 1.6;
    p.beginPath(); p.arc(x, y - BAR - 7, 3.5, 0, 7); p.stroke();
  } },
  timeout: { text: 'what was awaited stayed away', draw(p, x, right, y, ink) {
    p.strokeStyle = p.fillStyle = ink.ink; p.lineWidth = 1.4;
    p.beginPath(); p.arc(x, y - BAR - 7, 5, 0, 7); p.stroke();
    p.beginPath(); p.arc(x, y - BAR - 7, 2.2, 0, 7); p.fill();
  } },
  phase: { text: 'phase with its caption', draw(p, x, right, y, ink) {
    p.strokeStyle = ink.edge; p.lineWidth = 1;
    p.globalAlpha = 0.45; hatch(p, x, right, y - 10, y + 10, 10); p.globalAlpha = 1;
    p.setLineDash([3, 3]);
    path(p, [x, y - 10], [x, y + 10]); p.stroke();
    path(p, [right, y - 10], [right, y + 10]); p.stroke();
    p.setLineDash([]);
  } },
  refused: { text: 'consumer that was not admitted', draw(p, x, right, y, ink) {
    p.strokeStyle = ink.miss; p.lineWidth = 2;
    p.beginPath(); p.arc(x, y, 6, 0, 7); p.stroke();
    path(p, [x - 4.2, y + 4.2], [x + 4.2, y - 4.2]); p.stroke();
  } },
};
const POINTS = new Set(['release', 'deadline', 'missed', 'pushed', 'lost', 'interval', 'timeout', 'refused']);
// These stand above the bars of their row.
const ABOVE = new Set(['lost', 'interval', 'timeout']);

// How often each shape was drawn; the tests look at it, and the legend shows only what occurs.
let drawn = {};
function shape(kind, x, right, y, ink, ...more) {
  drawn[kind] = (drawn[kind] ?? 0) + 1;
  SHAPES[kind].draw(pen, x, right, y, ink, ...more);
}
