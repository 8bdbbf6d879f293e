'use strict';
// Draws the figures of the report: one plot for each element of class "plot", from the data beside
// it.
(() => {
  const SERIES = 8;
  const dashes = [[], [6, 4], [2, 3]];
  const data = JSON.parse(document.getElementById('data').textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim() || '#777';

  // Plain figures: 0.5, 12, 1 500, 2.1e6.
  const number = (v) => {
    if (v === null || v === undefined) return '';
    const a = Math.abs(v);
    if (a !== 0 && (a >= 1e6 || a < 1e-3)) return v.toExponential(1);
    return v.toLocaleString('en', { maximumFractionDigits: a < 10 ? 3 : a < 100 ? 1 : 0 });
  };

  const columns = (figure, rows) => {
    const own = rows.filter((row) => row.figure === figure.id);
    const xs = [...new Set(own.map((row) => row.x))].sort((a, b) => a - b);
    const subjects = [...new Set(own.map((row) => row.subject))];
    const lines = [];
    subjects.forEach((subject, s) => {
      figure.draw.forEach((value, d) => {
        const at = new Map(own.filter((row) => row.subject === subject).map((row) => [row.x, row[value]]));
        const ys = xs.map((x) => {
          const y = at.get(x);
          // A logarithm has no place for zero.
          return typeof y !== 'number' || (figure.log && y <= 0) ? null : y / figure.divide;
        });
        if (ys.every((y) => y === null)) return;
        const label = figure.draw.length > 1 ? subject + ' ' + value.replace(/_ns$/, '') : subject;
        const look = { colour: `series-${s % SERIES}`, shape: s % MARKERS.length, dash: dashes[d % dashes.length] };
        lines.push({ label, ys, ...look, width: 2, same: [] });
      });
    });
    findCoincident(figure, lines);
    return { xs, lines };
  };

  // Lines that lie on each other: the one below is drawn wider, and the legend names both.
  const findCoincident = (figure, lines) => {
    const all = lines.flatMap((line) => line.ys).filter((y) => y !== null);
    const range = Math.max(...all) - Math.min(...all, 0) || 1;
    const near = (a, b) => (figure.log ? Math.abs(Math.log(a / b)) < 0.03 : Math.abs(a - b) < range * 0.01);
    const close = (a, b) => a === b || (a !== null && b !== null && near(a, b));
    lines.forEach((line, i) => {
      for (const other of lines.slice(i + 1)) {
        if (!line.ys.every((y, at) => close(y, other.ys[at]))) continue;
        line.width = Math.max(line.width, other.width + 4);
        line.same.push(other.label);
        other.same.push(line.label);
      }
    });
    for (let i = lines.length - 2; i >= 0; i--) {
      // Three and more: each below is wider than the one above it.
      const above = lines.slice(i + 1).filter((other) => lines[i].same.includes(other.label));
      if (above.length) lines[i].width = Math.max(...above.map((other) => other.width)) + 4;
    }
  };

  // Each subject has a marker of its own: its corners around the middle, in units of half its size.
  const MARKERS = [
    [...Array(12)].map((_, i) => [Math.cos(i * Math.PI / 6), Math.sin(i * Math.PI / 6)]),
    [[-1, -1], [1, -1], [1, 1], [-1, 1]],
    [[0, -1.3], [1.2, 0.9], [-1.2, 0.9]],
    [[0, -1.4], [1.4, 0], [0, 1.4], [-1.4, 0]],
    [[0, 1.3], [1.2, -0.9], [-1.2, -0.9]],
    [[-1.3, -0.5], [-0.5, -0.5], [-0.5, -1.3], [0.5, -1.3], [0.5, -0.5], [1.3, -0.5],
      [1.3, 0.5], [0.5, 0.5], [0.5, 1.3], [-0.5, 1.3], [-0.5, 0.5], [-1.3, 0.5]],
    [[-1.4, -0.6], [1.4, -0.6], [1.4, 0.6], [-1.4, 0.6]],
    [[-0.6, -1.4], [0.6, -1.4], [0.6, 1.4], [-0.6, 1.4]],
  ];
  const corners = (shape, x, y, half) => MARKERS[shape].map(([dx, dy]) => [x + dx * half, y + dy * half]);
  const markers = (line) => (u, series, first, last) => {
    const marks = new Path2D();
    for (let i = first; i <= last; i++) {
      if (line.ys[i] === null) continue;
      const [x, y] = [u.valToPos(u.data[0][i], 'x', true), u.valToPos(line.ys[i], 'y', true)];
      corners(line.shape, x, y, 4 * devicePixelRatio).forEach(([a, b], at) => (at ? marks.lineTo(a, b) : marks.moveTo(a, b)));
      marks.closePath();
    }
    return { fill: marks, stroke: marks, clip: null, flags: 3 };
  };

  // A figure with one place on its horizontal axis has no line to draw: a bar for each value, from
  // zero.
  const bars = (place, figure, lines) => {
    const most = Math.max(...lines.map((line) => line.ys[0] ?? 0));
    place.classList.add('bars');
    for (const line of lines) {
      const cell = (kind, text) => {
        const element = document.createElement('span');
        element.className = kind;
        element.textContent = text;
        place.append(element);
        return element;
      };
      cell('label', line.label);
      const fill = cell('bar', '').appendChild(document.createElement('span'));
      fill.style.width = (100 * (line.ys[0] ?? 0)) / most + '%';
      const paint = `var(--${line.colour})`;
      fill.style.background = line.dash.length ? `repeating-linear-gradient(135deg, ${paint} 0 6px, transparent 6px 9px)` : paint;
      cell('value', number(line.ys[0]));
    }
    const unit = document.createElement('p');
    unit.className = 'soft';
    unit.textContent = figure.y;
    place.append(unit);
  };

  // The legend: a sample of each line as it is drawn, its name, and its value under the pointer. A
  // click hides the line.
  const legendOf = (place, lines, plot) => {
    const list = document.createElement('ul');
    list.className = 'legend plot-legend';
    const values = lines.map((line, i) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.setAttribute('aria-pressed', 'true');
      const points = corners(line.shape, 16, 8, 4).map((point) => point.join()).join(' ');
      // Only numbers and names of our own are markup here.
      const paint = `var(--${line.colour})`, opacity = line.width > 2 ? 0.5 : 1;
      button.innerHTML = '<svg width="32" height="16" aria-hidden="true">' +
        `<line x1="0" x2="32" y1="8" y2="8" style="stroke: ${paint}" stroke-width="${line.width}"` +
        ` stroke-opacity="${opacity}" stroke-dasharray="${line.dash.join(' ')}"/>` +
        `<polygon points="${points}" style="fill: ${paint}"/></svg>`;
      const name = document.createElement('span'), value = document.createElement('span');
      name.textContent = line.same.length ? `${line.label} (the same as ${line.same.join(' and ')})` : line.label;
      value.className = 'value';
      button.append(name, value);
      button.addEventListener('click', () => {
        const on = !plot().series[i + 1].show;
        button.setAttribute('aria-pressed', String(on));
        plot().setSeries(i + 1, { show: on });
      });
      const item = document.createElement('li');
      item.append(button);
      list.append(item);
      return value;
    });
    place.append(list);
    return (at) => values.forEach((value, i) => { value.textContent = number(lines[i].ys[at]); });
  };

  // Plots of one experiment with the same horizontal axis show the same part of it, and the same
  // place under the pointer.
  const groups = new Map();
  const groupOf = (experiment, figure, xs) => {
    const key = `${experiment.verdict.experiment}/${figure.x}`;
    if (!groups.has(key)) groups.set(key, { key, plots: [], low: Infinity, high: -Infinity });
    const group = groups.get(key);
    group.low = Math.min(group.low, xs[0]);
    group.high = Math.max(group.high, xs[xs.length - 1]);
    return group;
  };
  const showPart = (group, low, high) => {
    const [least, most] = [Math.max(low, group.low), Math.min(high, group.high)];
    if (!(most > least)) return;
    for (const plot of group.plots) plot.setScale('x', { min: least, max: most });
  };

  const draw = ({ place, experiment, figure, xs, lines, group }) => {
    const wide = group.low > 0 && group.high / group.low >= 500;
    const line = { stroke: () => colour('line'), width: 1 };
    const axis = (label) => ({ label, stroke: () => colour('ink'), grid: line, ticks: line, values: (_, all) => all.map(number) });
    const width = () => Math.max(200, place.clientWidth);
    let say = () => {};
    const options = {
      width: width(),
      height: 320,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, sync: { key: group.key, setSeries: false } },
      scales: {
        x: { time: false, distr: wide ? 3 : 1, auto: false, min: group.low, max: group.high },
        y: figure.log ? { distr: 3 } : { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] },
      },
      axes: [axis(figure.x), { ...axis(figure.y), size: 70 }],
      hooks: {
        setCursor: [(u) => say(u.cursor.idx)],
        setScale: [(u, key) => { if (key === 'x') place.dataset.part = [u.scales.x.min, u.scales.x.max].join(); }],
      },
      series: [
        { label: figure.x },
        ...lines.map((line) => ({
          label: line.label, stroke: () => colour(line.colour), dash: line.dash, spanGaps: true,
          width: line.width, alpha: line.width > 2 ? 0.5 : 1,
          points: { show: true, size: 8, fill: () => colour(line.colour), paths: markers(line) },
        })),
      ],
    };
    const plot = new uPlot(options, [xs, ...lines.map((line) => line.ys)], place);
    group.plots.push(plot);
    plot.setScale('x', { min: group.low, max: group.high });
    const canvas = place.querySelector('canvas');
    canvas.setAttribute('role', 'img');
    const names = lines.map((one) => one.label).join(', ');
    canvas.setAttribute('aria-label', `${figure.title}: ${names}; the values are in the table below`);
    say = legendOf(place, lines, () => plot);

    const edge = (x) => plot.posToVal(x, 'x');
    const zoom = (factor, x = plot.over.clientWidth / 2) => {
      const whole = plot.over.clientWidth;
      showPart(group, edge(x - x * factor), edge(x + (whole - x) * factor));
    };
    gestures(plot.over, { zoom, pan: (dx) => {
      // At an end it stays, instead of growing narrower.
      const [low, high] = [edge(-dx), edge(plot.over.clientWidth - dx)];
      if (low >= group.low && high <= group.high) showPart(group, low, high);
    } });
    const bar = document.createElement('div');
    bar.className = 'tools';
    place.append(bar);
    tool(bar, '+', `zoom in: ${figure.title}`, () => zoom(0.6));
    tool(bar, '−', `zoom out: ${figure.title}`, () => zoom(1 / 0.6));
    tool(bar, 'All', `All: ${figure.title}`, () => showPart(group, group.low, group.high)).setAttribute('aria-label', `All of ${figure.title}`);
    new ResizeObserver(() => plot.setSize({ width: width(), height: 320 })).observe(place);
  };

  const when = document.getElementById('when');
  when.textContent = new Date(Number(when.dataset.seconds) * 1000).toISOString().replace('T', ' ').slice(0, 16) + ' UTC';
  const plots = [...document.querySelectorAll('.plot')].flatMap((place) => {
    const experiment = data.find((e) => e.verdict.experiment === place.dataset.experiment);
    const figure = experiment.figures[Number(place.dataset.figure)];
    const { xs, lines } = columns(figure, experiment.rows);
    if (xs.length === 1 && lines.length) { bars(place, figure, lines); return []; }
    return [{ place, experiment, figure, xs, lines, group: groupOf(experiment, figure, xs) }];
  });
  plots.forEach(draw);
  const all = () => [...groups.values()].flatMap((group) => group.plots);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => all().forEach((plot) => plot.redraw(false, true)));
})();
