'use strict';
// Draws the part of the recording between `from` and `to`.

function axis(width, ink) {
  const rough = (to - from) / Math.max(2, (width - LEFT) / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const [unit, name] = unitOf(to - from < 2e9 ? (to - from) / 2 : to - from);
  pen.font = '12px system-ui, sans-serif';
  pen.textAlign = 'center';
  const narrow = LEFT < 100;
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const x = Math.round(xOf(at)) + 0.5;
    pen.strokeStyle = ink.line; pen.lineWidth = 1;
    pen.beginPath(); pen.moveTo(x, TOP - 6); pen.lineTo(x, height); pen.stroke();
    pen.fillStyle = ink.soft;
    const text = number(at / unit, 6) + (narrow ? ' ' + name : '');
    const half = pen.measureText(text).width / 2;
    pen.fillText(text, Math.min(Math.max(x, half + 2), width - half - 2), 16);
  }
  pen.textAlign = 'left';
  if (!narrow) pen.fillText('time in ' + name, 8, 16);
}

function drawPhases(place, width, ink) {
  const end = places.filter((p) => p.channel === place.channel).reduce((last, p) => Math.max(last, p.y + p.size), 0);
  for (const [, begin, until, caption] of place.phases) {
    if (until < from || begin > to) continue;
    const x = Math.max(xOf(begin), LEFT), right = Math.min(xOf(until), width - RIGHT);
    shape('phase', x, right, place.y + PHASE / 2, ink);
    pen.strokeStyle = ink.edge; pen.lineWidth = 1; pen.setLineDash([3, 3]);
    for (const edge of [x, right]) { pen.beginPath(); pen.moveTo(edge, place.y); pen.lineTo(edge, end); pen.stroke(); }
    pen.setLineDash([]);
    pen.font = '600 12px system-ui, sans-serif';
    const size = pen.measureText(caption).width;
    // A caption that is wider than its phase stands beside it, inside of the page.
    const at = Math.min(Math.max(size + 12 < right - x ? (x + right - size) / 2 : x + 6, LEFT + 4), width - RIGHT - size - 6);
    pen.fillStyle = ink.back; pen.fillRect(at - 5, place.y + 3, size + 10, PHASE - 6);
    pen.fillStyle = ink.ink; pen.fillText(caption, at, place.y + PHASE / 2 + 4);
  }
}

function drawRuns(row, middle, width, ink) {
  const colours = row.channel % 2 ? { ...ink, bar: ink['bar-other'] } : ink;
  const [low, high] = shownRuns(row);
  // Where runs stand close together, what is drawn around each of them would hide the others.
  const fine = high - low <= (width - LEFT) / 14;
  let last = -1, lastText = -1;
  for (let i = low; i < high; i++) {
    const [start, end, waited, , late, flags, overran, gaps, deadline] = row.runs[i];
    const x = Math.max(xOf(start), LEFT), right = Math.min(xOf(end), width);
    // What falls into one pixel is drawn once.
    if (late === 0 && !overran && !(flags & 1) && right < last + 1) continue;
    last = Math.max(x + 1, right);
    const released = xOf(start - waited);
    if (fine && !(flags & 2)) {
      if (x - released >= 1) shape('waiting', Math.max(released, LEFT), x, middle, colours);
      if (released >= LEFT) shape('release', released, released, middle, colours);
      if (deadline !== null && xOf(deadline) >= LEFT) shape('deadline', xOf(deadline), xOf(deadline), middle, colours);
    }
    shape(flags & 2 ? 'incomplete' : 'running', x, right, middle, colours);
    for (const [g0, g1] of gaps) {
      const a = Math.max(xOf(g0), LEFT), b = Math.min(xOf(g1), width);
      if (b > a) shape('preempted', a, Math.max(b, a + 1), middle, colours);
    }
    if (overran) shape('overrun', x, right, middle, colours);
    if (flags & 1) shape('failed', x, right, middle, colours);
    if (late > 0 && xOf(end) >= LEFT) {
      shape('missed', right, right, middle, colours);
      if (right + 8 > lastText) {
        const text = '−' + time(late);
        // Below the marks, and legible on what else is there.
        pen.strokeStyle = ink.back; pen.lineWidth = 3; pen.strokeText(text, right + 8, middle + BAR + 11);
        pen.fillStyle = ink.miss; pen.fillText(text, right + 8, middle + BAR + 11);
        lastText = right + 12 + pen.measureText(text).width;
      }
    }
  }
}

function drawMarks(row, middle, ink) {
  let last = -9;
  for (let i = firstFrom(row.pushes, from, (push) => push[0]); i < row.pushes.length && row.pushes[i][0] <= to; i++) {
    const x = Math.round(xOf(row.pushes[i][0])) + 0.5;
    if (x < last + 2) continue;
    last = x;
    shape('pushed', x, x, middle, ink);
  }
  for (let i = firstFrom(row.marks, from, (mark) => mark[0]); i < row.marks.length && row.marks[i][0] <= to; i++) {
    const [at, what, , deadline] = row.marks[i];
    shape(what === 'lost' ? 'lost' : deadline ? 'timeout' : 'interval', xOf(at), xOf(at), middle, ink);
  }
}

// From each push to the runs that it released, as long as there are few enough to follow.
const MOST_ARROWS = 80;
function drawCauses(width, ink) {
  const rows = new Map(places.filter((place) => place.row).map((place) => [place.index, place.y + MIDDLE]));
  const arrows = [];
  for (const { row, index } of places.filter((place) => place.row)) {
    const [low, high] = shownRuns(row);
    for (let i = low; i < high && arrows.length <= MOST_ARROWS; i++) {
      const run = row.runs[i], released = run[0] - run[2];
      if (run[9] === null || run[9] === index || released < from) continue;
      arrows.push([released, run[0], rows.get(run[9]), rows.get(index)]);
    }
  }
  if (arrows.length > MOST_ARROWS) return;
  for (const [released, start, a, b] of arrows) {
    const x = xOf(released), way = Math.sign(b - a), head = Math.min(xOf(start), width - RIGHT);
    const begin = a + way * (BAR + 5), end = b - way * (BAR + 2);
    shape('cause', x, Math.max(x, head), begin, ink, end - begin);
  }
}

function draw() {
  layOut();
  drawn = {};
  const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + 'px';
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  const ink = {};
  const names = ['ink', 'back', 'soft', 'line', 'band', 'edge', 'bar', 'bar-other', 'gap', 'miss', 'push', 'lost'];
  for (const name of names) ink[name] = colour(name);
  pen.clearRect(0, 0, width, height);
  places.forEach(({ y, size }, i) => {
    if (i % 2) { pen.fillStyle = ink.band; pen.fillRect(0, y, width, size); }
  });
  axis(width, ink);
  places.filter((place) => place.phases).forEach((place) => drawPhases(place, width, ink));
  for (const place of places) {
    const { row, header, refused, why, y } = place;
    if (header !== undefined) {
      pen.fillStyle = ink.soft; pen.font = '600 12px system-ui, sans-serif';
      pen.fillText(header, 8, y + 16, width - 16);
      continue;
    }
    if (place.phases) continue;
    const middle = y + MIDDLE, name = row ? row.name : refused;
    pen.font = '13px system-ui, sans-serif';
    pen.fillStyle = ink.ink;
    if (LEFT < 100) pen.fillText(name, 10, y + 15, width - 20);
    else pen.fillText(name, 14, middle + 4, LEFT - 24);
    pen.save();
    pen.beginPath(); pen.rect(LEFT - 5, y, width - LEFT + 5, ROW); pen.clip();
    pen.font = '11px system-ui, sans-serif';
    if (row) {
      drawRuns(row, middle, width, ink);
      drawMarks(row, middle, ink);
    } else {
      shape('refused', LEFT + 10, LEFT + 10, middle, ink);
      pen.font = '12px system-ui, sans-serif'; pen.fillStyle = ink.ink;
      pen.fillText('refused: ' + why, LEFT + 22, middle + 4);
    }
    pen.restore();
  }
  pen.save();
  pen.beginPath(); pen.rect(LEFT - 5, TOP, width - LEFT + 5, height - TOP); pen.clip();
  drawCauses(width, ink);
  pen.restore();
  if (selected) {
    const [start, end] = selected.row.runs[selected.run];
    const x = Math.max(LEFT, xOf(start)) - 3;
    pen.strokeStyle = ink.ink; pen.lineWidth = 2;
    pen.strokeRect(x, placeOf(selected.row).y + MIDDLE - 11, Math.max(8, Math.min(xOf(end), width) - x + 3), 22);
  }
  canvas.dataset.drawn = JSON.stringify(drawn);
}
