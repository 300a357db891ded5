// What ran when: a lane for each process, tests as bars, hits and notes above them, calls below.
const LANE = 64;
const AXIS = 22;
const GUTTER = 56; // names of the processes
const DEEPEST = 5;

class Timeline {
  /** choose: what a click on a test does; changed: called with the times in sight, which it shows soon. */
  constructor(canvas, tip, choose, changed) {
    Object.assign(this, { canvas, tip, choose, changed, width: canvas.clientWidth });
    this.draw = perFrame(() => this.render());
    new ResizeObserver(this.draw).observe(canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', this.draw);
    canvas.addEventListener('keydown', (event) => this.press(event));
    canvas.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    canvas.addEventListener('pointerdown', (event) => this.down(event));
    canvas.addEventListener('pointermove', (event) => this.hover(event));
    canvas.addEventListener('pointerup', (event) => this.up(event));
    canvas.addEventListener('pointerleave', () => { tip.textContent = ''; });
  }

  show(run, view) {
    if (this.run !== run) {
      this.run = run;
      const ends = [...run.tests.map((test) => test.end ?? test.begin), ...run.calls.map((call) => call.end),
        ...run.hits.map((hit) => hit.at), ...run.notes.map((note) => note.at)];
      const begins = [...run.tests.map((test) => test.begin), ...run.hits.map((hit) => hit.at),
        ...run.calls.map((call) => call.at)].filter((at) => at !== null);
      this.from = begins.reduce((least, at) => Math.min(least, at), Infinity);
      this.to = ends.reduce((most, at) => Math.max(most, at ?? 0), 0);
      if (!(this.from < this.to)) [this.from, this.to] = [0, Math.max(1, this.to)];
      const margin = (this.to - this.from) / 50;
      [this.from, this.to] = [this.from - margin, this.to + margin];
      [this.begin, this.end] = [this.from, this.to];
    }
    this.view = view;
    this.render();
  }

  get isAll() { return this.begin <= this.from && this.end >= this.to; }

  /** See another part; never less than a microsecond, never more than the run. */
  see(begin, end) {
    const span = Math.min(Math.max(end - begin, 0.001), this.to - this.from);
    this.begin = Math.max(this.from, Math.min(begin, this.to - span));
    this.end = this.begin + span;
    this.changed();
  }

  zoom(what, around = (this.begin + this.end) / 2) {
    const span = this.end - this.begin;
    const at = (around - this.begin) / span;
    if (what === 'in') this.see(around - at * span / 2, around + (1 - at) * span / 2);
    if (what === 'out') this.see(around - at * span * 2, around + (1 - at) * span * 2);
    if (what === 'left') this.see(this.begin - span / 4, this.end - span / 4);
    if (what === 'right') this.see(this.begin + span / 4, this.end + span / 4);
    if (what === 'all') this.see(this.from, this.to);
  }

  press(event) {
    const keys = { '+': 'in', '=': 'in', '-': 'out', ArrowLeft: 'left', ArrowRight: 'right', 0: 'all' };
    if (!(event.key in keys) || event.ctrlKey || event.metaKey) return;
    this.zoom(keys[event.key]);
    event.preventDefault();
  }

  wheel(event) {
    if (!event.ctrlKey && !event.shiftKey) return; // scrolls the page
    this.zoom((event.deltaY || event.deltaX) < 0 ? 'in' : 'out', this.time(event.offsetX));
    event.preventDefault();
  }

  down(event) {
    this.dragged = [event.offsetX, event.offsetX];
    this.canvas.setPointerCapture(event.pointerId);
  }

  up(event) {
    const [from, to] = (this.dragged || [0, 0]).sort((one, other) => one - other);
    this.dragged = null;
    if (to - from > 4) this.see(this.time(from), this.time(to));
    else {
      const test = this.testAt(event.offsetX, event.offsetY);
      if (test) this.choose(test);
    }
    this.draw();
  }

  hover(event) {
    if (this.dragged) {
      this.dragged[1] = event.offsetX;
      this.draw();
    }
    const test = this.testAt(event.offsetX, event.offsetY);
    const at = moment(this.time(event.offsetX));
    this.tip.textContent = test ? `${at} · ${test.nodeid} · ${test.outcome} in ${ms(test.seconds * 1000)}` : at;
  }

  testAt(x, y) {
    const worker = Math.floor((y - AXIS) / LANE);
    const [early, late] = [this.time(x - 2), this.time(x + 2)];
    if (x < GUTTER) return undefined;
    return this.view?.tests.find((test) => test.worker === this.lanes[worker]
      && test.begin <= late && (test.end ?? this.to) >= early);
  }

  get wide() { return this.width - GUTTER; }

  time(x) { return this.begin + (x - GUTTER) / this.wide * (this.end - this.begin); }

  x(at) { return GUTTER + (at - this.begin) / (this.end - this.begin) * this.wide; }

  render() {
    if (!this.view) return;
    this.lanes = this.run.workers.map((_, worker) => worker).filter((worker) => (
      this.run.tests.some((test) => test.worker === worker)
      || this.run.hits.some((hit) => hit.worker === worker) || this.run.calls.some((call) => call.worker === worker)))
      .sort((one, other) => this.run.workers[one].localeCompare(this.run.workers[other], 'en', { numeric: true }));
    this.width = this.canvas.clientWidth; // asked once: the browser may have to lay out the page
    const ratio = window.devicePixelRatio || 1;
    const tall = AXIS + LANE * Math.max(1, this.lanes.length);
    this.canvas.style.height = `${tall}px`;
    this.canvas.width = this.width * ratio;
    this.canvas.height = tall * ratio;
    const pen = this.canvas.getContext('2d');
    pen.scale(ratio, ratio);
    const style = getComputedStyle(document.body);
    const colors = new Map();
    this.drawn = new Map(); // row and color → the pixel that was drawn last
    this.color = (name) => {
      if (!colors.has(name)) colors.set(name, style.getPropertyValue(`--${name}`));
      return colors.get(name);
    };
    pen.font = `11px ${style.fontFamily}`;
    this.axis(pen, tall);
    this.lanes.forEach((worker, lane) => this.lane(pen, worker, AXIS + lane * LANE));
    if (this.dragged) {
      pen.fillStyle = this.color('accent');
      pen.globalAlpha = 0.2;
      pen.fillRect(this.dragged[0], 0, this.dragged[1] - this.dragged[0], tall);
      pen.globalAlpha = 1;
    }
    this.canvas.setAttribute('aria-label', `Timeline from ${moment(this.begin)} to ${moment(this.end)}: `
      + counted(this.view.tests.length, 'test'));
  }

  axis(pen, tall) {
    const step = 10 ** Math.floor(Math.log10((this.end - this.begin) / 4));
    const each = [1, 2, 5, 10].map((times) => times * step)
      .find((size) => (this.end - this.begin) / size * 90 < this.wide) ?? step * 10;
    for (let at = Math.ceil(this.begin / each) * each; at < this.end; at += each) {
      pen.fillStyle = this.color('line');
      pen.fillRect(this.x(at), 0, 1, tall);
      pen.fillStyle = this.color('dim');
      pen.fillText(ms(at) || '0', this.x(at) + 4, 14);
    }
  }

  lane(pen, worker, top) {
    pen.fillStyle = this.color('line');
    pen.fillRect(0, top, this.width, 1);
    for (const isBad of [false, true]) { // a failure is seen however narrow it is
      for (const test of this.view.tests) {
        if (test.worker !== worker || (test.kind === 'failed') !== isBad) continue;
        this.bar(pen, test.begin, test.end ?? this.to, top + 14, 16, test.kind, test.nodeid);
      }
    }
    this.marks(pen, this.view.hits, worker, top + 5, 7, 'hit');
    this.marks(pen, this.view.notes, worker, top + 1, 11, 'xpassed');
    for (const call of this.view.calls) {
      if (call.worker === worker && call.depth < DEEPEST) this.bar(pen, call.at, call.end, top + 33 + call.depth * 5, 4, 'call');
    }
    pen.fillStyle = this.color('raised');
    pen.fillRect(0, top + 1, GUTTER, LANE - 1);
    pen.fillStyle = this.color('dim');
    pen.fillText(this.run.workers[worker].slice(0, 8), 8, top + 26);
  }

  /** A bar, with a text where there is room; one that would not change a pixel is left out. */
  bar(pen, begin, end, top, tall, color, text) {
    const [left, right] = [this.x(begin), this.x(end)];
    if (begin === null || right < GUTTER || left > this.width) return;
    const from = Math.max(left, GUTTER);
    const wide = Math.max(Math.min(right, this.width + 1) - from, 1);
    if (wide === 1) {
      const row = top + color;
      if (this.drawn.get(row) === Math.round(from)) return;
      this.drawn.set(row, Math.round(from));
    }
    pen.fillStyle = this.color(color);
    pen.fillRect(from, top, wide > 3 ? wide - 0.5 : wide, tall);
    if (!text || wide < 40) return;
    pen.save();
    pen.beginPath();
    pen.rect(from, top, wide - 4, tall);
    pen.clip();
    pen.fillStyle = this.color('raised');
    pen.fillText(shortName(text), from + 4, top + 12);
    pen.restore();
  }

  marks(pen, rows, worker, top, tall, color) {
    pen.fillStyle = this.color(color);
    let last = -1;
    for (const row of rows) {
      if (row.worker !== worker) continue;
      const x = Math.round(this.x(row.at));
      if (x === last || x < GUTTER || x > this.width) continue;
      pen.fillRect(x, top, 1, tall);
      last = x;
    }
  }
}
