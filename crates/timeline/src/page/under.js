'use strict';
// What is at a place, as lines of text.

function aboutRun(row, run) {
  const [start, end, waited, thread, late, flags, overran, gaps, deadline, cause] = run;
  const away = gaps.reduce((sum, [a, b]) => sum + b - a, 0);
  const lines = [`${row.name}, level ${row.level}`,
    `from ${time(start, end)} to ${time(end)}: ran for ${time(end - start - away)}`, `its event waited ${time(waited)}`, `on ${data.threads[thread]}`];
  if (cause !== null) lines.push(`released by a push of ${data.rows[cause].name}`);
  if (deadline !== null && !late) lines.push(`deadline at ${time(deadline)}`);
  if (gaps.length) lines.push(`pre-empted ${gaps.length === 1 ? 'once' : gaps.length + ' times'}, ${time(away)} in all, by ` +
    [...new Set(gaps.map(([, , by]) => data.rows[by].name))].join(', '));
  if (late) lines.push(`deadline missed by ${time(late)}`);
  if (overran) lines.push(`used ${time(overran[0])} of processor time, declared ${time(overran[1])}`);
  if (flags & 1) lines.push('failed');
  if (flags & 2) lines.push('not recorded from begin to end');
  if (flags & 4) lines.push('changed its processor: pre-emptions are not known');
  return lines;
}

const LOSSES = ['its queue was full', 'no copy was free', 'it was too large', 'skipped after an overrun'];
// `reach` is how far away something may be, in pixels: fingers are wider than a pointer.
function under(x, y, reach = 4) {
  const place = places.find((p) => y >= p.y && y < p.y + p.size);
  const near = (to - from) / canvas.clientWidth * reach, at = atOf(x);
  if (place?.refused !== undefined) return `${place.refused} was refused\n${place.why}`;
  if (place?.phases) {
    const here = place.phases.filter((p) => at >= p[1] && at <= p[2]);
    return here.map((p) => `${p[3]}: ${time(p[1], p[2])} to ${time(p[2])}`).join('\n') || null;
  }
  if (!place?.row || x < LEFT) return null;
  const row = place.row;
  const close = (list, when) => list.filter((one) => Math.abs(when(one) - at) <= near)
    .sort((a, b) => Math.abs(when(a) - at) - Math.abs(when(b) - at))[0];
  const lines = [];
  let run;
  for (let i = firstFrom(row.runs, at - near, (r) => r[1]); i < row.runs.length && row.runs[i][0] <= at + near; i++) {
    if (!run || row.runs[i][0] <= at) run = row.runs[i];
  }
  if (run) lines.push(...aboutRun(row, run));
  const push = close(row.pushes, (p) => p[0]);
  if (push) lines.push(`${row.name} pushed type ${push[1]}, source ${push[2]} at ${time(push[0])}`);
  const mark = close(row.marks, (m) => m[0]);
  if (mark) lines.push(mark[1] === 'lost' ? `an event was lost at ${time(mark[0])}: ${LOSSES[mark[2]] || 'unknown reason'}`
    : `${mark[3] ? 'deadline time-out' : 'interval'} at ${time(mark[0])}, noticed after ${time(mark[2])}`);
  return lines.length ? lines.join('\n') : null;
}

function showTip(text, x, y) {
  tip.hidden = text === null;
  if (text === null) return;
  tip.textContent = text;
  const most = canvas.clientWidth - tip.offsetWidth - 4;
  const left = x + 14 > most ? x - tip.offsetWidth - 10 : x + 14;
  tip.style.left = Math.max(4, Math.min(left, most)) + 'px';
  tip.style.top = Math.max(4, Math.min(y + 14, height - tip.offsetHeight - 4)) + 'px';
}
