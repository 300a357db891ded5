// The tree of recorded calls, and the objects that went in and came out.
const callsColumns = (tree) => [
  { title: 'Call', cell: (call) => tree.name(call) },
  { title: 'Result', class: 'middle', cell: (call) => h('span', { class: call.raised ? 'failed' : null, title: call.result }, `${call.raised ? '✗ ' : ''}${call.result}`) },
  { title: 'Took', class: 'narrow number', cell: (call) => ms(call.end - call.at) },
  { title: 'Begin', class: 'narrow number', cell: (call) => moment(call.at) },
];

class CallTree {
  constructor(place, objects) {
    this.objects = objects;
    this.folded = new Set();
    this.rows = new Rows(place, 'Recorded calls', callsColumns(this), (call) => this.open(call), {
      ArrowRight: (call) => this.fold(call, false),
      ArrowLeft: (call) => this.fold(call, true),
      toggle: (call) => this.fold(call, !this.folded.has(call)),
    });
  }

  /** Calls as they stand in the record, depth first. */
  show(calls) {
    this.calls = calls;
    calls.forEach((call, index) => { call.isParent = index + 1 < calls.length && calls[index + 1].depth > call.depth; });
    this.unfold();
  }

  unfold() {
    let below = Infinity;
    this.rows.show(this.calls.filter((call) => {
      if (call.depth > below) return false;
      below = this.folded.has(call) ? call.depth : Infinity;
      call.level = call.depth + 1;
      call.expanded = call.isParent ? String(!this.folded.has(call)) : null;
      return true;
    }));
  }

  fold(call, isFolded) {
    if (isFolded && call.isParent) this.folded.add(call);
    else this.folded.delete(call);
    this.unfold();
  }

  foldAll(isFolded) {
    this.folded = new Set(isFolded ? this.calls.filter((call) => call.isParent) : []);
    this.unfold();
  }

  name(call) {
    const mark = h('span', { class: 'twisty', 'data-key': call.isParent ? 'toggle' : null, 'aria-hidden': 'true' },
      call.isParent ? (this.folded.has(call) ? '▸' : '▾') : '');
    const text = `${call.name}(${call.inside})`;
    const cell = h('span', { title: text }, mark, text);
    cell.style.paddingLeft = `${Math.min(call.depth, 40) * 16}px`;
    return cell;
  }

  open(call) {
    const parts = call.objects.map(([name, number]) => {
      const described = this.objects()[number];
      return described ? h('section', { class: 'object' }, snapshot(name, described, true)) : null;
    });
    details(`${call.name}(${call.inside})`,
      pairs([[call.raised ? 'raised' : 'returned', call.result], ['took', ms(call.end - call.at)], ['called at', call.site],
        ['test', call.nodeid], ['process', call.process]]),
      parts.some(Boolean) ? h('h4', {}, 'Objects as they were') : '', ...parts.filter(Boolean));
  }
}

/** What is known of an object; what is inside is made when it is unfolded. */
function snapshot(name, described, isOpen = false) {
  const inside = Object.entries(described.attributes ?? {});
  const line = [h('span', { class: 'key' }, name), ' ', h('span', {}, described.repr ?? ''), ' ', h('span', { class: 'dim' }, described.type ?? '')];
  if (!inside.length) return h('div', { class: 'leaf' }, ...line);
  const element = h('details', {}, h('summary', {}, ...line));
  const fill = () => {
    if (element.children.length === 1) element.append(...inside.map(([key, value]) => snapshot(key, value)));
  };
  element.addEventListener('toggle', fill);
  if (isOpen) fill();
  element.open = isOpen;
  return element;
}
