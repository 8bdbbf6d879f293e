'use strict';
// The text around the picture: the sums, the refused consumers, the legend, and the table.
const about = document.getElementById('about');
const total = (n) => data.rows.reduce((sum, row) => sum + row.numbers[n], 0);
const late = total(8);
add(about, 'span', `${(data.span / 1e9).toLocaleString('en', { maximumFractionDigits: 3 })} s, ${data.rows.length} rows, ` +
  `${total(0).toLocaleString('en')} events pushed, ${total(1).toLocaleString('en')} runs, `);
add(about, 'span', late ? `${late} deadline${late === 1 ? '' : 's'} missed` : 'no deadline missed', late ? 'bad' : '');
if (data.lost) add(about, 'span', `; ${data.lost.toLocaleString('en')} older records were overwritten or found no place`);
if (data.cut) add(about, 'span', `; too much to draw: shown from ${time(data.cut)} on`);

const refusals = document.getElementById('refused');
refusals.hidden = data.refused.length === 0;
for (const [, name, why] of data.refused) {
  const item = add(refusals, 'li', '');
  add(item, 'span', `${name} was refused`, 'bad');
  item.append(`: ${why}`);
}

// The legend is drawn by the same functions as the rows, of what the recording can show.
function drawLegend() {
  const legend = document.getElementById('legend');
  legend.replaceChildren();
  const names = ['ink', 'back', 'soft', 'edge', 'bar', 'gap', 'miss', 'push', 'lost'];
  const ink = Object.fromEntries(names.map((name) => [name, colour(name)]));
  const ratio = window.devicePixelRatio || 1;
  for (const [kind, { text, draw: drawShape }] of Object.entries(SHAPES)) {
    const entry = add(legend, 'li', '');
    entry.dataset.state = kind;
    const sample = add(entry, 'canvas', '');
    sample.setAttribute('aria-hidden', 'true');
    [sample.width, sample.height] = [40 * ratio, 40 * ratio];
    const p = sample.getContext('2d');
    p.scale(ratio, ratio);
    const point = POINTS.has(kind) ? 20 : 5;
    if (kind === 'cause') drawShape(p, 8, 18, 6, ink, 26);
    else drawShape(p, point, POINTS.has(kind) ? point : 35, ABOVE.has(kind) ? 21 + 2 * BAR : 21, ink);
    entry.append(text);
  }
}

const table = document.getElementById('numbers');
const heads = ['row', 'level', 'pushed', 'runs', 'ran p50', 'ran max', 'response p50', 'response p99', 'response max',
  'pre-empted', 'missed', 'lost'];
const top_ = add(table, 'tr', '');
heads.forEach((text) => { add(top_, 'th', text).scope = 'col'; });
let group = -1;
for (const row of data.rows) {
  if (data.channels.length > 1 && row.channel !== group) {
    group = row.channel;
    const head = add(add(table, 'tr', ''), 'th', data.channels[group], 'channel');
    head.colSpan = heads.length;
    head.scope = 'colgroup';
  }
  const line = add(table, 'tr', '');
  add(line, 'th', row.name).scope = 'row';
  add(line, 'td', row.consumer ? row.level : '');
  row.numbers.forEach((n, i) => {
    const isTime = i >= 2 && i <= 6, text = isTime ? (row.consumer ? inTable(n) : '') : n.toLocaleString('en');
    add(line, 'td', text, i >= 8 && n ? 'bad' : '');
  });
}
