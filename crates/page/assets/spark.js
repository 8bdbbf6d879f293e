'use strict';
// A small plot of the latest values of a quantity, as SVG of a fixed size. Each value is one step
// to the right.
const SPARK = { steps: 120, width: 120, height: 26 };

function spark(label) {
  const make = (tag, attributes) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const { steps, width, height } = SPARK;
  const svg = make('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label });
  const floor = make('line', { class: 'floor', x1: 0, x2: width, y1: height - .5, y2: height - .5 });
  const line = make('polyline', { class: 'line', points: '' });
  const last = make('circle', { class: 'last', r: 2 });
  svg.append(floor, line, last);
  const values = [];
  return {
    svg,
    values,
    // `text` is the value for people.
    add(value, text) {
      values.push(value);
      if (values.length > steps) values.shift();
      const most = Math.max(...values.map((v) => v ?? 0), 1e-9);
      const x = (i) => width - 3 - ((values.length - 1 - i) / (steps - 1)) * (width - 6);
      const y = (v) => height - 2 - ((v ?? 0) / most) * (height - 5);
      line.setAttribute('points', values.map((v, i) => `${x(i).toFixed(1)},${y(v).toFixed(1)}`).join(' '));
      last.setAttribute('cx', x(values.length - 1).toFixed(1));
      last.setAttribute('cy', y(value).toFixed(1));
      const highest = most < 1e-8 ? 0 : most.toLocaleString('en', { maximumFractionDigits: 1 });
      svg.setAttribute('aria-label', `${label}: ${text} now, ${highest} at most in the last ${values.length} samples`);
    },
  };
}
