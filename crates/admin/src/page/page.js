'use strict';
// Shows what /events says, and keeps what is in place: the keyboard's focus, and how far a table is
// scrolled.

let number = 0;

// A section for each table, by its id; each service of a page has a prefix.
const sections = new Map();
function table(id, heading, columns, rows, keyOf) {
  return { id, heading, columns, rows, keyOf };
}

function sectionOf({ id, heading, columns, rows }, prefix) {
  const key = prefix + id;
  if (!sections.has(key)) {
    const head = make('tr', undefined, { role: 'row' });
    head.append(...columns.map((c) => make('th', c.heading, { scope: 'col', role: 'columnheader' })));
    const thead = make('thead', undefined, { role: 'rowgroup' });
    thead.append(head);
    // Roles are given since a narrow page shows rows as cards, and tables without their layout lose
    // them.
    const body = make('tbody', undefined, { role: 'rowgroup' });
    const all = make('table', undefined, { id: key, class: 'cards', role: 'table', 'aria-label': heading });
    all.append(thead, body);
    const wide = make('div', undefined, { class: 'scroll', role: 'group', 'aria-label': `table: ${heading}`, tabindex: '0' });
    wide.append(all);
    const section = make('section');
    const none = make('p', 'none', { class: 'soft' });
    section.append(make('h2', heading), wide, none);
    sections.set(key, { section, wide, none, body });
  }
  const entry = sections.get(key);
  entry.wide.hidden = rows.length === 0;
  entry.none.hidden = rows.length > 0;
  entry.body.replaceChildren(...rows.map((row) => lineOf(row, columns)));
  return entry.section;
}

function lineOf(row, columns) {
  const line = make('tr', undefined, { role: 'row' });
  columns.forEach(({ heading, field, show, bad }, i) => {
    const attributes = i === 0 ? { scope: 'row', role: 'rowheader' } : { role: 'cell' };
    const cell = make(i === 0 ? 'th' : 'td', undefined, { 'data-field': field, 'data-label': heading, ...attributes });
    cell.append(show(row));
    cell.classList.toggle('bad', bad(row));
    line.append(cell);
  });
  return line;
}

// The rates of a service over time.
function ratesOf(rates, prefix) {
  const list = make('ul', undefined, { class: 'rates' });
  for (const [field, label, value, text] of rates) {
    const entry = make('li', undefined, { 'data-field': field });
    entry.append(plotOf(`${prefix}${field}`, label, value, text, number), make('strong', text), make('span', label, { class: 'soft' }));
    list.append(entry);
  }
  return list;
}

const detailsOf = ({ facts: pairs, rates = [], tables }, prefix) => [
  ...(rates.length ? [ratesOf(rates, prefix)] : []),
  facts(make('dl', undefined, { class: 'facts' }), pairs),
  ...tables.map((one) => sectionOf(one, prefix)),
];

// A process may show what pages of other processes say below its own.
function show(state) {
  const [page, ...others] = (state.kind === 'together' ? state.parts : [state]).map((s) => PAGES[s.kind](s));
  document.title = `${page.title} – isorb`;
  $('title').textContent = page.title;
  const shown = [
    ...detailsOf(page, ''),
    ...others.flatMap((other, i) => [make('h1', other.title, { class: 'other' }), ...detailsOf(other, `other-${i + 1}-`)]),
  ];
  // What is in place is not moved: that would take the focus away.
  const main = $('tables');
  const stays = new Set(shown);
  [...main.children].filter((child) => !stays.has(child)).forEach((child) => child.remove());
  shown.forEach((child, i) => { if (main.children[i] !== child) main.insertBefore(child, main.children[i] ?? null); });
}

function link(text, lost) {
  $('link').textContent = text;
  $('link').classList.toggle('lost', lost);
}

const events = new EventSource('events');
events.onmessage = (message) => {
  number += 1;
  show(JSON.parse(message.data));
  document.body.dataset.number = number;
  link('live', false);
};
events.onerror = () => {
  link(events.readyState === EventSource.CLOSED ? 'refused: too many look already; reload later' : 'connection lost, trying again', true);
};
