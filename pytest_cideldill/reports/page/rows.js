// A long table of which only the rows in sight are in the document.
const ROW = 28;

class Rows {
  /**
   * columns: [{title, class, cell: (row) => text or node}]; open: what Enter and a click do with a
   * row; keys: {key: (row) => …}, more of them, and then it is a tree.
   */
  constructor(place, label, columns, open, keys = null) {
    this.columns = columns;
    this.open = open;
    this.keys = keys ?? {};
    this.rows = [];
    this.active = 0;
    this.body = h('tbody', { role: 'rowgroup' });
    const titles = columns.map((column) => h('th', { role: 'columnheader', class: column.class }, column.title));
    const table = h('table', { role: 'presentation' },
      h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, ...titles)), this.body);
    this.box = h('div', { class: 'scroll', tabIndex: 0, role: keys ? 'treegrid' : 'grid', 'aria-label': label }, table);
    this.id = place.id;
    this.draw = perFrame(() => this.render());
    this.box.addEventListener('scroll', this.draw, { passive: true });
    this.box.addEventListener('keydown', (event) => this.press(event));
    this.body.addEventListener('click', (event) => this.click(event));
    new ResizeObserver(this.draw).observe(this.box);
    place.replaceChildren(this.box);
  }

  show(rows) {
    this.rows = rows;
    this.active = Math.max(0, Math.min(this.active, rows.length - 1));
    this.box.setAttribute('aria-rowcount', rows.length + 1);
    this.render();
  }

  render() {
    const tall = Math.max(this.box.clientHeight, 10 * ROW);
    const top = Math.min(this.box.scrollTop, this.rows.length * ROW - tall); // there may be fewer now
    const first = Math.max(0, Math.floor(top / ROW) - 8);
    const end = Math.min(this.rows.length, first + Math.ceil(tall / ROW) + 18);
    const shown = this.rows.slice(first, end).map((row, index) => this.row(row, first + index));
    this.body.replaceChildren(
      this.space(first), ...shown, this.space(this.rows.length - end));
    this.box.setAttribute('aria-activedescendant', `${this.id}-${this.active}`);
  }

  space(count) {
    const cell = h('td', { class: 'space', colSpan: this.columns.length });
    cell.style.height = `${count * ROW}px`;
    const row = h('tr', { hidden: !count, 'aria-hidden': 'true' }, cell);
    row.style.height = cell.style.height;
    return row;
  }

  row(row, index) {
    const name = index === this.active ? 'row active' : 'row';
    const element = h('tr', {
      role: 'row', class: name, id: `${this.id}-${index}`, 'aria-rowindex': index + 2, 'data-index': index,
      'aria-level': row.level, 'aria-expanded': row.expanded,
    });
    for (const column of this.columns) {
      const inside = column.cell(row);
      const cell = h('td', { role: 'gridcell', class: column.class }, inside);
      if (!(inside instanceof Node)) cell.title = inside;
      element.append(cell);
    }
    return element;
  }

  click(event) {
    const element = event.target.closest('tr.row');
    if (!element) return;
    this.move(+element.dataset.index);
    const key = event.target.dataset.key;
    if (key) this.keys[key](this.rows[this.active]);
    else this.open(this.rows[this.active]);
  }

  press(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const row = this.rows[this.active];
    if (event.key in steps) this.move(this.active + steps[event.key]);
    else if (event.key === 'Enter' && row) this.open(row);
    else if (event.key in this.keys && row) this.keys[event.key](row);
    else return;
    event.preventDefault();
  }

  move(index) {
    this.active = Math.max(0, Math.min(this.rows.length - 1, index));
    const top = this.active * ROW;
    const room = this.box.clientHeight - 2 * ROW;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    if (top > this.box.scrollTop + room) this.box.scrollTop = top - room;
    this.render();
  }
}

function details(title, ...inside) {
  $('details-title').textContent = title;
  $('details-body').replaceChildren(...inside);
  $('details').showModal();
  $('details-body').scrollTop = 0;
}

function pairs(entries) {
  const rows = entries.filter(([, value]) => value !== '' && value !== null && value !== undefined);
  return h('table', { class: 'pairs' }, h('tbody', {}, ...rows.map(([name, value]) => h('tr', {},
    h('th', { scope: 'row' }, name), h('td', {}, value instanceof Node ? value : h('code', {}, value))))));
}
