'use strict';
// What a pointer, fingers or a wheel do on an element, as panning, zooming, hovering and tapping.
// Positions are pixels from the element's left and top edge. A wheel alone scrolls the page; with
// Ctrl, or two fingers on a pad, it zooms.
function gestures(element, on) {
  const pointers = new Map();
  let moved = 0;
  const place = (e) => {
    const box = element.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  };
  element.addEventListener('pointerdown', (e) => {
    if (e.pointerType === 'mouse' && e.button !== 0) return;
    if (pointers.size === 0) moved = 0;
    pointers.set(e.pointerId, place(e));
    // A pointer that a script made cannot be captured.
    if (on.pan) try { element.setPointerCapture(e.pointerId); } catch { /* it works without */ }
  });
  element.addEventListener('pointermove', (e) => {
    const now = place(e), before = pointers.get(e.pointerId);
    if (!before) return on.hover?.(now.x, now.y);
    pointers.set(e.pointerId, now);
    moved += Math.hypot(now.x - before.x, now.y - before.y);
    if (pointers.size === 1) return on.pan?.(now.x - before.x);
    if (pointers.size !== 2) return;
    const other = [...pointers].find(([id]) => id !== e.pointerId)[1];
    const width = (one) => Math.max(8, Math.hypot(one.x - other.x, one.y - other.y));
    on.zoom(width(before) / width(now), (now.x + other.x) / 2);
    on.pan?.((now.x - before.x) / 2);
  });
  const release = (e) => {
    if (!pointers.delete(e.pointerId)) return;
    const { x, y } = place(e);
    if (e.type === 'pointerup' && pointers.size === 0 && moved < 8) on.tap?.(x, y);
  };
  element.addEventListener('pointerup', release);
  element.addEventListener('pointercancel', release);
  element.addEventListener('pointerleave', (e) => { if (e.pointerType === 'mouse') on.leave?.(); });
  // Two fingers zoom the plot instead of the page.
  const two = (e) => { if (e.touches.length > 1 && e.cancelable) e.preventDefault(); };
  element.addEventListener('touchstart', two, { passive: false });
  element.addEventListener('touchmove', two, { passive: false });
  element.addEventListener('wheel', (e) => {
    const { x } = place(e);
    const side = e.shiftKey ? e.deltaY || e.deltaX : e.deltaX;
    if (e.ctrlKey || e.metaKey) {
      e.preventDefault();
      on.zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) * 0.005), x);
    } else if (on.pan && side && (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY))) {
      e.preventDefault();
      on.pan(-side);
    }
  }, { passive: false });
}

// A button in a bar of tools.
function tool(bar, text, name, action) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = text;
  button.title = name;
  // The name that is spoken contains the one that is read.
  if (!/[a-z]/i.test(text)) button.setAttribute('aria-label', name);
  button.addEventListener('click', action);
  bar.append(button);
  return button;
}
