'use strict';
// The columns of the tables.

// A column: heading, its name for tests and styles, what is shown, and when it is bad news.
const column = (heading, field, show, bad = () => false) => ({ heading, field, show, bad });
const counted = (heading, field, isBad = false) =>
  column(heading, field, (row) => count(row[field]), (row) => isBad && row[field] > 0);

// Further lines of a cell, each with a word before its value.
const lines = (...entries) => (row) => {
  const list = make('dl', undefined, { class: 'lines' });
  for (const { heading, field, show, bad } of entries) {
    const line = make('div');
    const value = make('dd', undefined, { 'data-field': field });
    value.append(show(row));
    value.classList.toggle('bad', bad(row));
    line.append(make('dt', heading), value);
    list.append(line);
  }
  return list;
};
const stack = (...parts) => (row) => {
  const all = document.createDocumentFragment();
  all.append(...parts.map((part) => part(row)));
  return all;
};
const span = (field, show, attributes = {}) => (row) => {
  const text = make('span', undefined, { 'data-field': field, ...attributes });
  text.append(show(row));
  return text;
};

// How much of a queue is full.
function level(n, most) {
  const bar = make('span', undefined, { class: 'level', 'aria-hidden': 'true' });
  const full = make('span');
  full.style.width = `${Math.min(100, (100 * n) / Math.max(1, most))}%`;
  bar.append(full);
  return bar;
}

// A plot for each row stays while the row does.
const plots = new Map();
function plotOf(key, label, value, text, number) {
  if (!plots.has(key)) plots.set(key, { plot: spark(label), number: -1 });
  const entry = plots.get(key);
  if (entry.number !== number) entry.plot.add(value ?? 0, text);
  entry.number = number;
  return entry.plot.svg;
}

const place = ({ gateway, address }) =>
  (gateway ? (address ? `gateway to ${address}` : 'gateway') : address || 'in this process');
const CONSUMERS = [
  column('Consumer', 'consumer', stack(
    span('name', (c) => `${c.name || 'unnamed'} (${c.id})${c.suspended ? ', suspended' : ''}`, { class: 'name' }),
    span('address', place, { class: 'soft line' }),
    span('priority', (c) => `priority ${c.priority}${c.processor == null ? '' : `, processor ${c.processor}`}`, { class: 'soft line' }),
  )),
  column('Filter', 'filter', (c) => c.filter || nothing),
  column('Pushes', 'pushes', stack(
    (c) => plotOf(`consumer ${c.id}`, `pushes a second to ${c.name || 'unnamed'}`, c.push_rate, rate(c.push_rate), number),
    lines(column('a second', 'push_rate', (c) => rate(c.push_rate)), counted('in all', 'pushed')),
  )),
  column('Queue', 'queue', stack(
    span('waiting', (c) => `${count(c.waiting)} of ${count(c.queue)}`),
    (c) => level(c.waiting, c.queue),
  ), (c) => c.waiting >= c.queue),
  column('Losses', 'losses', lines(
    counted('lost', 'lost', true),
    column('a second', 'loss_rate', (c) => rate(c.loss_rate), (c) => c.loss_rate > 0),
    counted('too large', 'too_large', true),
    counted('failed', 'failed', true),
  )),
  column('Deadline', 'time', lines(
    column('deadline', 'deadline', (c) => time(c.deadline_ns)),
    counted('missed', 'missed', true),
    counted('overruns', 'overruns', true),
    counted('early', 'early'),
  )),
  column('Laxity', 'laxity', stack(
    (c) => histogram(c.laxity, 'laxity'),
    lines(column('least', 'least_laxity', (c) => time(c.least_laxity_ns), (c) => c.least_laxity_ns < 0)),
  )),
  column('Waited', 'waited', (c) => histogram(c.waited, 'time in the queue')),
  column('Response', 'response', stack(
    (c) => histogram(c.response, 'response'),
    lines(column('p50', 'p50', (c) => under(c.response, 'p50_ns')), column('p99', 'p99', (c) => under(c.response, 'p99_ns'))),
  )),
];

const NEIGHBOURS = [
  column('Neighbour', 'channels', (n) => n.channels.join(', ') || 'not heard of', (n) => !n.channels.length),
  column('Address', 'address', (n) => n.address || nothing),
  column('Link', 'up', (n) => (n.up ? '▲ up' : '▼ down'), (n) => !n.up),
  column('Clock within', 'clock', (n) => (n.clock_error_ns == null ? nothing : time(n.clock_error_ns))),
];

const VALUES = [
  column('Values/s', 'rate', (a) => rate(a.rate)),
  counted('Values', 'values'),
  column('Age', 'age', (a) => time(a.age_ns)),
  column('State', 'state', (a) => a.state, (a) => a.state !== 'open'),
];
const AREAS = [
  column('Area', 'name', (a) => a.name),
  counted('Bytes', 'size'),
  counted('Histories', 'histories'),
  ...VALUES,
  column('Writer', 'writer', (a) => (a.has_writer ? 'yes' : 'no')),
  column('Promised', 'period', (a) => (a.period_ns ? `every ${time(a.period_ns)}` : nothing)),
  counted('Readers here', 'readers'),
  column('Pushed to', 'pushed_to', (a) => a.pushed_to.map(([node, sure]) => node + (sure ? ' (guaranteed)' : '')).join(', ') || nothing),
];
const REPLICAS = [
  column('Area of another node', 'name', (r) => r.name),
  counted('Bytes', 'size'),
  ...VALUES,
  counted('Readers', 'readers'),
  column('By', 'by', (r) =>
    (r.datagrams ? 'datagrams' : 'the ORB') + (r.guaranteed ? ', guaranteed' + (r.soft ? ' (soft)' : '') : '')),
  column('Deadline', 'deadline', (r) => (r.deadline_ns ? time(r.deadline_ns) : nothing)),
  counted('Missed', 'missed', true),
  counted('Lost', 'lost', true),
  counted('Skipped', 'skipped', true),
  counted('Recovered', 'recovered'),
  counted('Ignored', 'ignored', true),
  counted('Silences', 'silent', true),
  column('Worst age', 'worst_age', (r) => time(r.worst_age_ns)),
  column('Age within', 'age_bound', (r) => time(r.age_bound_ns)),
];
