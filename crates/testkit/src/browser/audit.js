// Rules of accessibility that a page must keep, beside those of axe; returns a sentence for each
// breach.
const breaches = [];
const name = (element) => {
  const id = element.id ? `#${element.id}` : '';
  return `${element.tagName.toLowerCase()}${id}${element.getAttribute('class') ? '.' + element.getAttribute('class').replaceAll(' ', '.') : ''}`;
};
const shown = (element) => element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0;
const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);
const breach = (element, what) => breaches.push(`${name(element)} ${what}`);

// What the page says of itself.
if (!document.documentElement.lang) breaches.push('the page has no language');
if (!document.title.trim()) breaches.push('the page has no title');
if (all('main').length !== 1) breaches.push('the page has no single element main');
if (!all('h1').length) breaches.push('the page has no h1');
let level = 0;
for (const heading of all('h1, h2, h3, h4, h5, h6')) {
  const own = Number(heading.tagName[1]);
  if (own > level + 1) breach(heading, `is a heading of level ${own} after one of level ${level}`);
  level = own;
}
for (const element of document.body.querySelectorAll(':scope > *')) {
  const outside = shown(element) && element.textContent.trim() && !/^(MAIN|HEADER|FOOTER|NAV|ASIDE|SCRIPT|NOSCRIPT)$/.test(element.tagName);
  if (outside) breach(element, 'is outside of the landmarks');
}
const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => breaches.push(`two elements have the id ${id}`));

// Names of controls and pictures.
const label = (element) => element.getAttribute('aria-label') || element.getAttribute('title') ||
  (element.getAttribute('aria-labelledby') ?? '').split(' ').map((id) => document.getElementById(id)?.textContent ?? '').join(' ') ||
  element.labels?.[0]?.textContent || element.querySelector?.(':scope > title')?.textContent || element.textContent;
for (const control of all('a[href], button, input, select, textarea, summary, [tabindex], [role=img]')) {
  if (!label(control)?.trim()) breach(control, 'has no name');
}
all('[tabindex]').filter((element) => element.tabIndex > 0).forEach((element) => breach(element, 'changes the order of the keyboard'));
for (const control of all('button, summary, select, input')) {
  const { width, height } = control.getBoundingClientRect();
  if (width < 24 || height < 24) breach(control, `is ${width.toFixed(0)} by ${height.toFixed(0)} pixels: too small for a finger`);
}
all('table').filter((table) => !table.querySelector('th')).forEach((table) => breach(table, 'has no headings'));
all('th').filter((th) => !th.scope && !th.hasAttribute('role')).forEach((th) => breach(th, `(${th.textContent}) has no scope`));

// What scrolls takes the keyboard, and the page itself does not scroll sideways.
for (const element of all('body *')) {
  const style = getComputedStyle(element);
  if (!/auto|scroll/.test(style.overflowX + style.overflowY)) continue;
  const scrolls = element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1;
  if (scrolls && element.tabIndex < 0) breach(element, 'scrolls, but the keyboard cannot reach it');
}
const sideways = document.documentElement.scrollWidth - document.documentElement.clientWidth;
if (sideways > 0) {
  const wide = all('body *').filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest('.scroll'));
  breaches.push(`the page is ${sideways} pixels too wide: ${wide.slice(0, 3).map(name).join(', ')}`);
}

// Contrast of text with the ground that it stands on.
const parse = (text) => {
  const numbers = text.match(/[\d.]+/g).map(Number);
  const scale = text.startsWith('color(') ? 255 : 1;
  return [...numbers.slice(0, 3).map((n) => n * scale), numbers[3] ?? 1];
};
const over = ([r, g, b, a], under) => [r, g, b].map((c, i) => c * a + under[i] * (1 - a));
const ground = (element) => {
  if (!element) return matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
  const colour = parse(getComputedStyle(element).backgroundColor);
  return colour[3] === 1 ? colour.slice(0, 3) : over(colour, ground(element.parentElement));
};
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
for (const element of all('body *')) {
  const text = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.textContent).join('').trim();
  if (!text) continue;
  const style = getComputedStyle(element), back = ground(element);
  const paint = element.namespaceURI.endsWith('svg') ? style.fill : style.color;
  const [a, b] = [over(parse(paint), back), back].map(luminance).sort((x, y) => y - x);
  const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 700);
  const contrast = (a + 0.05) / (b + 0.05);
  if (contrast < (large ? 3 : 4.5) - 0.01) breach(element, `has text with a contrast of ${contrast.toFixed(2)}: ${text.slice(0, 30)}`);
}
return breaches;
