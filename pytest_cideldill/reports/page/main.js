// Takes the data of `pagedata.py` apart, and shows what the filters and the timeline leave.
const runs = JSON.parse($('data').textContent).map((run) => {
  const test = (number) => (number === null ? {} : run.tests[number]);
  run.tests = run.tests.map(([nodeid, worker, begin, end, outcome, kind, seconds, failure, why]) => (
    { nodeid, worker, begin, end, outcome, kind, seconds, failure, why, process: run.workers[worker] }));
  run.tracepoints = run.tracepoints.map(([place, message, condition, count], index) => ({ place, message, condition, count, index }));
  run.hits = run.hits.map(([at, number, worker, tracepoint, hit, message]) => (
    { at, nodeid: test(number).nodeid, test: test(number), worker, tracepoint, number: hit, message,
      place: run.tracepoints[tracepoint].place, process: run.workers[worker] }));
  run.calls = run.calls.map(([depth, at, end, number, worker, name, inside, result, raised, site, objects]) => (
    { depth, at, end, nodeid: test(number).nodeid, test: test(number), worker, name, inside, result, raised, site, objects,
      process: run.workers[worker] }));
  run.notes = run.notes.map(([at, number, worker, type, text]) => (
    { at, nodeid: test(number).nodeid, test: test(number), worker, type, text, process: run.workers[worker] }));
  return run;
});

const filters = $('filters');
let run = runs[0];
const timeline = new Timeline($('timeline'), $('tip'), (test) => {
  filters.elements.text.value = test.nodeid;
  apply();
}, perFrame(() => apply()));
const tests = new Rows($('tests'), 'Tests', testsColumns(), openTest);
const hits = new Rows($('hits'), 'Hits of tracepoints', hitsColumns(), openHit);
const calls = new CallTree($('calls'), () => run.objects);
const notes = new Rows($('notes'), 'Notes', notesColumns(), openNote);

function openTest(test) {
  const found = test.failure && $(test.failure);
  if (!found) {
    filters.elements.text.value = test.nodeid;
    apply();
    return;
  }
  found.open = true;
  found.querySelector('summary').focus();
  found.scrollIntoView({ block: 'start' });
}

/** What the filters let through; the timeline draws all of it and is the filter of the times. */
function apply() {
  const { text, outcome, worker } = Object.fromEntries(new FormData(filters));
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (row, ...texts) => {
    row.words ??= texts.join(' ').toLowerCase();
    return words.every((word) => row.words.includes(word));
  };
  const isHere = (row) => worker === '' || row.worker === +worker;
  const isOf = (row) => outcome === '' || row.test.outcome === outcome;
  const view = {
    tests: run.tests.filter((test) => isHere(test) && (outcome === '' || test.outcome === outcome) && has(test, test.nodeid, test.outcome, test.why)),
    hits: run.hits.filter((hit) => isHere(hit) && isOf(hit) && has(hit, hit.nodeid ?? '', hit.message, hit.place)),
    calls: run.calls.filter((call) => isHere(call) && isOf(call) && has(call, call.nodeid ?? '', call.name, call.inside, call.result)),
    notes: run.notes.filter((note) => isHere(note) && isOf(note) && has(note, note.nodeid ?? '', note.type, note.text)),
  };
  if (words.length) { // what was asked for in a test belongs to it, and the other way round
    const named = new Set([...view.tests, ...[...view.hits, ...view.calls, ...view.notes].map((row) => row.test)]);
    view.tests = run.tests.filter((test) => named.has(test) && isHere(test));
  }
  timeline.show(run, view);
  const [from, to] = timeline.isAll ? [-Infinity, Infinity] : [timeline.begin, timeline.end];
  const isSeen = (begin, end) => begin === null || (begin <= to && (end ?? to) >= from);
  const seen = {
    tests: view.tests.filter((test) => isSeen(test.begin, test.end)),
    hits: view.hits.filter((hit) => isSeen(hit.at, hit.at)),
    calls: view.calls.filter((call) => isSeen(call.at, call.end)),
    notes: view.notes.filter((note) => isSeen(note.at, note.at)),
  };
  tests.show(seen.tests);
  hits.show(seen.hits);
  calls.show(seen.calls);
  notes.show(seen.notes);
  $('tracepoints').replaceChildren(tracepointTable(run, seen.hits, (tracepoint) => {
    filters.elements.text.value = tracepoint.place;
    apply();
    hits.box.focus();
  }));
  const window = timeline.isAll ? '' : ` · ${moment(timeline.begin)} to ${moment(timeline.end)}`;
  const missing = run.left_out ? ` · not in this page: ${run.left_out}` : '';
  $('state').textContent = `${counted(seen.tests.length, 'test')}, ${counted(seen.hits.length, 'hit')}, `
    + `${counted(seen.calls.length, 'call')}${window}${missing}`;
}

function choose(select, entries) {
  select.replaceChildren(...entries.map(([value, label]) => h('option', { value }, label)));
}

function start() {
  const kinds = [...new Set(run.tests.map((test) => test.outcome))].sort();
  choose(filters.elements.outcome, [['', 'all'], ...kinds.map((kind) => [kind, kind])]);
  choose(filters.elements.worker, [['', 'all'], ...run.workers.map((name, index) => [index, name])]);
  $('tracepoints').parentElement.hidden = !run.tracepoints.length;
  $('calls').parentElement.hidden = !run.calls.length;
  $('notes').parentElement.hidden = !run.notes.length;
  apply();
}

filters.addEventListener('input', perFrame(() => apply()));
filters.addEventListener('submit', (event) => event.preventDefault());
filters.addEventListener('reset', () => requestAnimationFrame(() => {
  filters.elements.run.value = runs.indexOf(run);
  timeline.zoom('all');
  apply();
}));
filters.elements.run.addEventListener('change', () => { run = runs[+filters.elements.run.value]; start(); });
for (const button of document.querySelectorAll('[data-zoom]')) {
  button.addEventListener('click', () => timeline.zoom(button.dataset.zoom));
}
for (const button of document.querySelectorAll('[data-tree]')) {
  button.addEventListener('click', () => calls.foldAll(button.dataset.tree === 'close'));
}
choose(filters.elements.run, runs.map((each, index) => [index, each.name]));
$('run-choice').hidden = runs.length < 2;
$('explorer').hidden = false;
start();
