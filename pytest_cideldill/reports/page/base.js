// Elements, texts and numbers. Whatever the record holds becomes text, never markup.
const $ = (id) => document.getElementById(id);

/** An element: properties as they are, `class`, `role` and what has a hyphen as attributes. */
function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (key === 'class' || key === 'role' || key.includes('-')) element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined).map((child) => (
    child instanceof Node ? child : String(child))));
  return element;
}

function svg(name, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Milliseconds as text: `3.2 ms`, `1.25 s`. */
function ms(value) {
  if (value === null || value === undefined) return '';
  if (Math.abs(value) < 1) return `${+value.toFixed(3)} ms`;
  if (Math.abs(value) < 1000) return `${+value.toPrecision(3)} ms`;
  return `${+(value / 1000).toPrecision(Math.abs(value) < 100000 ? 3 : 6)} s`;
}

/** A moment of the run: milliseconds from its begin, to the microsecond. */
const moment = (value) => (value === null ? '' : `${(value / 1000).toFixed(6)} s`);

const counted = (count, name) => `${count.toLocaleString('en')} ${name}${count === 1 ? '' : 's'}`;

/** The last part of a node id. */
const shortName = (nodeid) => (nodeid ?? '').slice((nodeid ?? '').lastIndexOf('::') + 1).replace(/^:/, '');

/** Calls once per frame, however often it is asked. */
function perFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; work(); });
  };
}
