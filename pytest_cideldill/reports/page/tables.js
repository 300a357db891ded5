// Tests, tracepoints with sparklines of their values, hits and notes.
const NUMBERS = /([A-Za-z_][\w.]*(?:\[[^\]]*\])?)=(?:Decimal\(')?(-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?![\w.])/gi;
const POINTS = 300;

const testsColumns = () => [
  { title: 'Outcome', class: 'narrow', cell: (test) => h('span', { class: test.kind }, test.outcome) },
  { title: 'Test', cell: (test) => h('span', { title: `${test.nodeid}\n${test.why}` }, test.nodeid, h('span', { class: 'dim' }, test.why ? `  ${test.why}` : '')) },
  { title: 'Process', class: 'narrow', cell: (test) => test.process },
  { title: 'Begin', class: 'narrow number', cell: (test) => moment(test.begin) },
  { title: 'Duration', class: 'narrow number', cell: (test) => ms(test.seconds * 1000) },
];

const hitsColumns = () => [
  { title: 'Time', class: 'narrow number', cell: (hit) => moment(hit.at) },
  { title: 'Tracepoint', class: 'middle', cell: (hit) => hit.place },
  { title: 'Message', cell: (hit) => hit.message },
  { title: 'Test', class: 'middle', cell: (hit) => h('span', { title: hit.nodeid }, shortName(hit.nodeid)) },
  { title: 'Process', class: 'narrow', cell: (hit) => hit.process },
];

const notesColumns = () => [
  { title: 'Time', class: 'narrow number', cell: (note) => moment(note.at) },
  { title: 'Process', class: 'narrow', cell: (note) => note.process },
  { title: 'What', class: 'narrow', cell: (note) => note.type.replaceAll('_', ' ') },
  { title: 'Text', cell: (note) => note.text },
  { title: 'Test', class: 'middle', cell: (note) => h('span', { title: note.nodeid }, shortName(note.nodeid)) },
];

function openHit(hit) {
  details(hit.place, h('pre', {}, hit.message), pairs([
    ['time', moment(hit.at)], ['test', hit.nodeid], ['process', hit.process], ['hit number', hit.number]]));
}

function openNote(note) {
  details(note.type.replaceAll('_', ' '), h('pre', {}, note.text),
    pairs([['time', moment(note.at)], ['test', note.nodeid], ['process', note.process]]));
}

/** Name → its numbers in the messages of these hits, in their order. */
function series(hits) {
  const found = new Map();
  for (const hit of hits) {
    hit.numbers ??= [...hit.message.matchAll(NUMBERS)].map(([, name, number]) => [name, +number]);
    for (const [name, number] of hit.numbers) {
      if (!found.has(name)) found.set(name, []);
      found.get(name).push(number);
    }
  }
  return found;
}

function sparkline(name, numbers) {
  const least = numbers.reduce((one, other) => Math.min(one, other));
  const most = numbers.reduce((one, other) => Math.max(one, other));
  const step = Math.max(1, numbers.length / POINTS);
  const points = [];
  for (let index = 0; index < numbers.length; index += step) points.push(numbers[Math.floor(index)]);
  if (points.length === 1) points.push(points[0]);
  const span = most - least || 1;
  const path = points.map((value, index) => (
    `${(index / (points.length - 1) * 100).toFixed(2)},${(24 - (value - least) / span * 22).toFixed(2)}`));
  const summary = `${name}: ${least} to ${most}, last ${numbers[numbers.length - 1]}`;
  return h('span', { class: 'spark' },
    svg('svg', { viewBox: '0 0 100 26', preserveAspectRatio: 'none', role: 'img', 'aria-label': summary },
      svg('polyline', { points: path.join(' ') })),
    h('span', {}, h('code', {}, name), ` ${short(least)} … ${short(most)}, last ${short(numbers[numbers.length - 1])}`));
}

const short = (number) => String(+number.toPrecision(6));

/** How many hits are shown; of how many, where not all are in the page. */
function share(shown, tracepoint, run) {
  tracepoint.kept ??= run.hits.filter((hit) => hit.tracepoint === tracepoint.index).length;
  const of = tracepoint.count > tracepoint.kept ? ` of ${tracepoint.count.toLocaleString('en')}` : '';
  return shown.toLocaleString('en') + of;
}

/** The table of tracepoints; filter: what the button of one does. */
function tracepointTable(run, hits, filter) {
  const rows = run.tracepoints.map((tracepoint) => {
    const own = hits.filter((hit) => hit.tracepoint === tracepoint.index);
    const lines = [...series(own)].slice(0, 4).map(([name, numbers]) => sparkline(name, numbers));
    const button = h('button', { type: 'button', title: 'Only its hits' }, h('code', {}, tracepoint.place));
    button.addEventListener('click', () => filter(tracepoint));
    const condition = tracepoint.condition ? ` if ${tracepoint.condition}` : '';
    return h('tr', {}, h('th', { scope: 'row' }, button), h('td', {}, h('code', {}, `${tracepoint.message ?? ''}${condition}`)),
      h('td', { class: 'number' }, share(own.length, tracepoint, run)), h('td', {}, ...lines));
  });
  const titles = ['Place', 'Message', 'Hits', 'Values'].map((title) => h('th', { scope: 'col' }, title));
  return h('table', {}, h('thead', {}, h('tr', {}, ...titles)), h('tbody', {}, ...rows));
}
