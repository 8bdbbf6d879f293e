'use strict';
// Shows what /events says. Whatever has a name from elsewhere is written as text, never as markup.

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
function histogram(times) {
  if (!times || times.count === 0) return document.createTextNode(nothing);
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('width', (LAST - FIRST + 1) * WIDTH);
  svg.setAttribute('height', HEIGHT);
  svg.setAttribute('role', 'img');
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
  const title = document.createElementNS(SVG, 'title');
  title.textContent = times.buckets
    .map(([end, n]) => `${end === null ? 'longer' : `under ${time(end)}`}: ${count(n)}`)
    .join('\n');
  svg.prepend(title);
  return svg;
}

// A column: heading, its name for tests and styles, what is shown, and when it is bad news.
const column = (heading, field, show, bad = () => false) => ({ heading, field, show, bad });
const counted = (heading, field, isBad = false) =>
  column(heading, field, (row) => count(row[field]), (row) => isBad && row[field] > 0);

const CONSUMERS = [
  column('Consumer', 'name', (c) => `${c.name || 'unnamed'} (${c.id})${c.suspended ? ', suspended' : ''}`),
  counted('Priority', 'priority'),
  column('Pushes/s', 'push_rate', (c) => rate(c.push_rate)),
  counted('Pushes', 'pushed'),
  column('Waiting', 'waiting', (c) => `${count(c.waiting)} of ${count(c.queue)}`, (c) => c.waiting >= c.queue),
  column('Losses/s', 'loss_rate', (c) => rate(c.loss_rate), (c) => c.loss_rate > 0),
  counted('Lost', 'lost', true),
  counted('Too large', 'too_large', true),
  counted('Failed', 'failed', true),
  column('Deadline', 'deadline', (c) => time(c.deadline_ns)),
  counted('Missed', 'missed', true),
  counted('Overruns', 'overruns', true),
  counted('Early', 'early'),
  column('Least laxity', 'least_laxity', (c) => time(c.least_laxity_ns), (c) => c.least_laxity_ns < 0),
  column('Response p50', 'p50', (c) => under(c.response, 'p50_ns')),
  column('p99', 'p99', (c) => under(c.response, 'p99_ns')),
  column('Laxity', 'laxity', (c) => histogram(c.laxity)),
  column('Waited', 'waited', (c) => histogram(c.waited)),
  column('Response', 'response', (c) => histogram(c.response)),
];

const NEIGHBOURS = [
  column('Neighbour', 'channels', (n) => n.channels.join(', ') || 'not heard of', (n) => !n.channels.length),
  column('Address', 'address', (n) => n.address || nothing),
  column('Link', 'up', (n) => (n.up ? 'up' : 'down'), (n) => !n.up),
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
  column('By', 'by', (r) => (r.datagrams ? 'datagrams' : 'the ORB') + (r.guaranteed ? ', guaranteed' : '')),
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

function table(id, heading, columns, rows) {
  const head = make('tr');
  head.append(...columns.map((c) => make('th', c.heading, { scope: 'col' })));
  const body = make('tbody');
  for (const row of rows) {
    const line = make('tr');
    for (const { field, show, bad } of columns) {
      const cell = make('td', undefined, { 'data-field': field });
      cell.append(show(row));
      cell.classList.toggle('bad', bad(row));
      line.append(cell);
    }
    body.append(line);
  }
  const thead = make('thead');
  thead.append(head);
  const all = make('table', undefined, { id });
  all.append(thead, body);
  const wide = make('div', undefined, { class: 'scroll' });
  wide.append(all);
  const section = make('section');
  section.append(make('h2', heading), rows.length ? wide : make('p', 'none', { class: 'soft' }));
  return section;
}

function facts(list, pairs) {
  list.replaceChildren(
    ...pairs.map(([name, value]) => {
      const pair = make('div');
      pair.append(make('dt', name), make('dd', value));
      return pair;
    }),
  );
  return list;
}

// What only a process in trouble has.
const troubles = ({ panics, threads_replaced, threads_ended, log_dropped, log_suppressed }) =>
  [
    ['panics', panics],
    ['threads replaced', threads_replaced],
    ['threads ended', threads_ended],
    ['log records dropped', log_dropped],
    ['log records suppressed', log_suppressed],
  ]
    .filter(([, number]) => number > 0)
    .map(([name, number]) => [name, count(number)]);

const PAGES = {
  'event-channel': (s) => ({
    title: s.id ? `Event channel ${s.id}` : 'Event channel',
    facts: [
      ['consumers', count(s.consumers.length + s.left_out)],
      ['not shown', count(s.left_out)],
      ['events that wait', `${count(s.copies - s.free_copies)} of ${count(s.copies)}`],
      ['look-ups an event', count(s.lookups)],
      ['lost to their size', count(s.too_large)],
      ['not declared', count(s.undeclared)],
      ['suppliers lost', count(s.suppliers_lost)],
      ['without the key', count(s.unauthenticated)],
      ['trace', s.tracing ? 'on' : 'off: no latencies'],
      ...troubles(s.process ?? {}),
    ],
    tables: [
      table('consumers', 'Consumers', CONSUMERS, s.consumers),
      ...(s.neighbours.length ? [table('neighbours', 'Neighbours', NEIGHBOURS, s.neighbours)] : []),
    ],
  }),
  'reflective-memory': (s) => ({
    title: `Reflective memory, node ${s.name}`,
    facts: [
      ['processes', count(s.sessions)],
      ['bytes', `${count(s.bytes)} of ${count(s.bytes_limit)}`],
      ['guaranteed channels', count(s.guaranteed)],
      ['processor given away', `${part(s.cpu)} of ${part(s.cpu_share)}`],
      ['link given away', `${part(s.link)} of ${part(s.link_share)}`],
      ['not shown', count(s.left_out)],
      ...troubles(s.process ?? {}),
    ],
    tables: [
      table('areas', 'Areas of this node', AREAS, s.areas),
      table('replicas', 'Read from other nodes', REPLICAS, s.replicas),
    ],
  }),
  unreachable: (s) => ({ title: `The page at ${s.address} cannot be read`, facts: [['why', s.why]], tables: [] }),
  ended: () => ({ title: 'The service has ended', facts: [], tables: [] }),
};

// A process may show what pages of other processes say below its own.
function show(state) {
  const [page, ...others] = (state.kind === 'together' ? state.parts : [state]).map((s) => PAGES[s.kind](s));
  document.title = `${page.title} – isorb`;
  $('title').textContent = page.title;
  facts($('facts'), page.facts);
  const below = others.flatMap((other) => [
    make('h1', other.title, { class: 'other' }),
    facts(make('dl'), other.facts),
    ...other.tables,
  ]);
  $('tables').replaceChildren(...page.tables, ...below);
}

function link(text, lost) {
  $('link').textContent = text;
  $('link').classList.toggle('lost', lost);
}

let number = 0;
const events = new EventSource('events');
events.onmessage = (message) => {
  show(JSON.parse(message.data));
  number += 1;
  document.body.dataset.number = number;
  link('live', false);
};
events.onerror = () => {
  link(events.readyState === EventSource.CLOSED ? 'refused: too many look already; reload later' : 'connection lost, trying again', true);
};
