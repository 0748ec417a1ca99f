// What the pages of an attempt need beyond provost.js: a log of any length of which the document
// holds a few hundred rows, and the choice of lines that a comment is on.
'use strict';

// A block, so that its names are apart from those of the other script.
{

// ---- The log ----

const ROWS_MAX = 800;
const POLL_MS = 1000;
const NEAR_PX = 400;
const ERRORS_FEW = 30;

class Log {
  constructor(root) {
    this.root = root;
    this.box = root.querySelector('.log-box');
    this.slider = root.querySelector('[data-log-slider]');
    this.place = root.querySelector('[data-log-place]');
    this.tab = 'raw';
    this.box.addEventListener('scroll', () => this.scrolled(), { passive: true });
    this.slider.addEventListener('input', () => this.slid());
    root.addEventListener('click', (event) => this.chosen(event.target.closest('[data-tab]')));
    root.addEventListener('keydown', (event) => this.turned(event));
    this.newest();
    setInterval(() => this.poll(), POLL_MS);
  }

  // The rows of a window, in the list that says what they are of the whole.
  async ask(query) {
    const round = this.round;
    const answer = await fetch(`${this.root.dataset.log}?tab=${this.tab}${query}`, { headers: { 'x-part': '1' } });
    if (!answer.ok || round !== this.round) return null;
    const frame = document.createElement('template');
    frame.innerHTML = await answer.text();
    return round === this.round ? frame.content.querySelector('ol') : null;
  }

  // One request at a time: what is asked for meanwhile is asked for again by the next event or poll.
  async once(work) {
    if (this.isBusy) return;
    this.isBusy = true;
    try {
      await work();
    } catch {
      // The next poll asks again.
    } finally {
      this.isBusy = false;
    }
  }

  newest() {
    return this.open('', true);
  }

  // Another window in place of this one.
  open(query, isAtEnd) {
    this.round = (this.round || 0) + 1;
    this.isBusy = false;
    return this.once(async () => {
      const list = await this.ask(query);
      if (!list) return;
      this.first = Number(list.dataset.first ?? 0);
      this.last = Number(list.dataset.last ?? -1);
      this.isFollowing = isAtEnd;
      this.box.replaceChildren(list);
      this.list = list;
      this.showRange(list);
      this.box.scrollTop = isAtEnd ? this.box.scrollHeight : 0;
      await this.dig();
    });
  }

  // Errors are few: an answer that has none says how far back it looked, and the next one goes on.
  async dig() {
    const round = this.round;
    while (this.tab === 'errors' && this.rows().length < ERRORS_FEW && this.first > this.oldest) {
      const first = this.first;
      await this.older();
      if (round !== this.round || this.first >= first) return;
      if (this.isFollowing) this.box.scrollTop = this.box.scrollHeight;
    }
  }

  showRange(list) {
    this.oldest = Number(list.dataset.oldest ?? 0);
    this.latest = Number(list.dataset.latest ?? -1);
    this.slider.min = this.oldest;
    this.slider.max = Math.max(this.oldest, this.latest);
    this.show();
  }

  show() {
    const row = this.topRow();
    const index = row ? Number(row.dataset.index) : this.first;
    if (document.activeElement !== this.slider) this.slider.value = this.isFollowing ? this.latest : index;
    const text = this.latest < 0 ? 'Empty' : `${index + 1} of ${this.latest + 1}`;
    this.slider.setAttribute('aria-valuetext', text);
    const isWhole = this.isFollowing && this.latest >= 0;
    const kind = this.tab === 'errors' ? `errors from entry ${this.first + 1}` : `${this.latest + 1} entries`;
    this.place.textContent = isWhole ? `${kind}, following` : text;
  }

  topRow() {
    const top = this.box.getBoundingClientRect().top;
    return this.rows().find((row) => row.getBoundingClientRect().bottom > top);
  }

  rows() {
    return this.list ? [...this.list.querySelectorAll('[data-index]')] : [];
  }

  scrolled() {
    if (!this.list) return;
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    const below = scrollHeight - scrollTop - clientHeight;
    this.isFollowing = below < 24 && this.last >= this.latest;
    if (scrollTop < NEAR_PX && this.first > this.oldest) this.once(() => this.older());
    else if (below < NEAR_PX && this.last < this.latest) this.once(() => this.newer());
    this.show();
  }

  async older() {
    const list = await this.ask(`&before=${this.first}`);
    if (!list || list.dataset.first === undefined) return;
    const height = this.box.scrollHeight;
    this.list.prepend(...list.querySelectorAll('[data-index]'));
    this.first = Number(list.dataset.first);
    this.box.scrollTop += this.box.scrollHeight - height;
    const rows = this.rows();
    if (rows.length > ROWS_MAX) {
      for (const row of rows.slice(ROWS_MAX)) row.remove();
      this.last = Number(rows[ROWS_MAX - 1].dataset.index);
      this.list.querySelector('.progress')?.remove();
    }
    this.showRange(list);
  }

  async newer() {
    const list = await this.ask(`&after=${this.last}`);
    if (!list) return;
    this.list.querySelector('.progress')?.remove();
    const rows = [...list.children];
    this.list.append(...rows);
    if (list.dataset.last !== undefined) this.last = Number(list.dataset.last);
    const all = this.rows();
    if (all.length > ROWS_MAX) {
      const height = this.box.scrollHeight;
      for (const row of all.slice(0, all.length - ROWS_MAX)) row.remove();
      this.first = Number(this.rows()[0].dataset.index);
      this.box.scrollTop -= height - this.box.scrollHeight;
    }
    if (this.isFollowing) this.box.scrollTop = this.box.scrollHeight;
    this.showRange(list);
  }

  poll() {
    const isShown = document.visibilityState === 'visible' && this.box.checkVisibility() && !this.box.contains(held);
    if (!isShown || !this.list) return;
    // A window that failed to come, or an event that met a busy log, has no event after it.
    if (this.isFollowing && this.last >= this.latest) this.once(() => this.newer());
    else this.scrolled();
  }

  slid() {
    clearTimeout(this.sliding);
    const index = Number(this.slider.value);
    this.sliding = setTimeout(() => {
      if (index >= this.latest) this.newest();
      else this.open(`&after=${index - 1}`, false);
    }, 120);
  }

  chosen(tab) {
    if (!tab || tab.dataset.tab === this.tab) return;
    for (const other of this.root.querySelectorAll('[data-tab]')) {
      other.setAttribute('aria-selected', String(other === tab));
    }
    this.tab = tab.dataset.tab;
    this.newest();
  }

  // Tabs by arrow keys, and the ends of the log by theirs.
  turned(event) {
    const tab = event.target.closest('[data-tab]');
    if (tab && (event.key === 'ArrowLeft' || event.key === 'ArrowRight')) {
      const next = event.key === 'ArrowRight' ? tab.nextElementSibling : tab.previousElementSibling;
      if (!next) return;
      next.focus();
      this.chosen(next);
    } else if (event.target === this.box && event.key === 'End') {
      this.newest();
    } else if (event.target === this.box && event.key === 'Home') {
      this.open(`&after=${this.oldest - 1}`, false);
    } else {
      return;
    }
    event.preventDefault();
  }
}

// ---- Lines of a diff ----

// The chosen lines: cells of one side of one file, from the one that was chosen first.
const chosen = { from: null, to: null };

function cellOf(target) {
  if (!target.closest || target.closest('form, .thread')) return null;
  const number = target.closest('.diff td.no');
  if (number) return number.parentElement.querySelector(`td.text[data-side="${sideOf(number)}"]`);
  return target.closest('.diff td.text[data-line]');
}

// The side that a number speaks of: in the unified view the row's own, else the nearest cell's.
function sideOf(number) {
  const text = number.nextElementSibling?.matches('.text') ? number.nextElementSibling : number.parentElement.querySelector('td.text');
  return text?.dataset.side ?? 'new';
}

function cellsOf(cell) {
  return [...cell.closest('.diff').querySelectorAll(`td.text[data-side="${cell.dataset.side}"][data-line]`)];
}

function choose(cell, isRange) {
  const isSame = chosen.from?.isConnected && chosen.from.dataset.side === cell.dataset.side && chosen.from.closest('.diff') === cell.closest('.diff');
  if (!isRange || !isSame) chosen.from = cell;
  chosen.to = cell;
  for (const other of document.querySelectorAll('td.chosen')) other.classList.remove('chosen');
  for (const it of chosenCells()) it.classList.add('chosen');
  cell.focus({ preventScroll: true });
  cell.scrollIntoView({ block: 'nearest' });
}

function chosenCells() {
  if (!chosen.from?.isConnected || !chosen.to?.isConnected) return [];
  const cells = cellsOf(chosen.from);
  const ends = [cells.indexOf(chosen.from), cells.indexOf(chosen.to)].sort((one, other) => one - other);
  return cells.slice(ends[0], ends[1] + 1);
}

// The form for a comment on the chosen lines stands below the last of them.
function comment() {
  const cells = chosenCells();
  const frame = document.getElementById('comment-form');
  if (cells.length === 0 || !frame) return;
  for (const open of document.querySelectorAll('tr.writing')) open.remove();
  const last = cells[cells.length - 1];
  const file = last.closest('[data-path]');
  const row = document.createElement('tr');
  row.className = 'thread writing';
  const place = row.appendChild(document.createElement('td'));
  place.colSpan = 4;
  place.append(frame.content.cloneNode(true));
  const form = place.querySelector('form');
  const isOld = last.dataset.side === 'old';
  const old = isOld && frame.dataset.oldTurn ? { side: 'new', turn: frame.dataset.oldTurn } : { side: 'old', turn: frame.dataset.turn };
  const { side, turn } = isOld ? old : { side: 'new', turn: frame.dataset.turn };
  const values = { path: file.dataset.path, side, turn, line: cells[0].dataset.line, last_line: last.dataset.line };
  for (const [name, value] of Object.entries(values)) form.elements[name].value = value;
  form.elements._request_id.value = newId();
  const lines = cells.length > 1 ? `lines ${values.line} to ${values.last_line}` : `line ${values.line}`;
  place.querySelector('[data-lines]').textContent = `${lines}${isOld ? ', before the change' : ''}`;
  last.closest('tr').after(row);
  htmx.process(row);
  form.elements.text.focus();
}

function lineKey(event) {
  const cell = event.target.closest?.('.diff td.text[data-line]');
  const isField = event.target.closest?.('input, textarea, select');
  if (isField || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'c' && !event.shiftKey) {
    if (!chosen.to?.isConnected) firstLine();
    if (!chosen.to?.isConnected) return;
    comment();
  } else if (cell && (event.key === 'ArrowDown' || event.key === 'ArrowUp')) {
    // A range is of one side; else the next line is the next row, whatever its side.
    const isMixed = cell.closest('.unified') !== null && !event.shiftKey;
    const cells = isMixed ? [...cell.closest('.diff').querySelectorAll('td.text[data-line]')] : cellsOf(cell);
    const next = cells[cells.indexOf(cell) + (event.key === 'ArrowDown' ? 1 : -1)];
    if (next) choose(next, event.shiftKey);
  } else if (cell && (event.key === 'ArrowLeft' || event.key === 'ArrowRight')) {
    const other = cell.parentElement.querySelector(`td.text[data-side="${event.key === 'ArrowLeft' ? 'old' : 'new'}"][data-line]`);
    if (other) choose(other, false);
  } else if (event.key === 'Enter' && event.target.matches?.('.file[data-item]')) {
    firstLine();
  } else {
    return;
  }
  event.preventDefault();
  event.stopImmediatePropagation();
}

// The first changed line of the file in focus.
function firstLine() {
  const file = document.activeElement.closest('.file') ?? document.querySelector('.file');
  const found = ['.added', '.deleted', ''].map((change) => file?.querySelector(`td.text${change}[data-line]`));
  const cell = found.find((it) => it);
  if (cell) choose(cell, false);
}

function lineClicked(event) {
  const cancel = event.target.closest('[data-cancel]');
  if (cancel) {
    cancel.closest('tr').remove();
    chosen.to?.focus();
    return;
  }
  const cell = cellOf(event.target);
  if (!cell || String(getSelection()) !== '') return;
  const isNumber = event.target.closest('td.no') !== null;
  choose(cell, event.shiftKey);
  if (isNumber && !event.shiftKey) comment();
}

// A comment that was added leaves its form; what concerns the whole page shows it anew.
function sent(event) {
  const form = event.detail.elt;
  if (!event.detail.successful || !form.matches?.('form')) return;
  const row = form.closest('tr.writing');
  if (row) {
    const back = chosen.to;
    form.elements.text.blur();
    row.remove();
    if (back?.isConnected) back.focus();
  }
  if (form.matches('.reload')) location.reload();
}

// ---- Start ----

for (const root of document.querySelectorAll('[data-log]')) new Log(root);
document.addEventListener('click', lineClicked);
document.addEventListener('keydown', lineKey, true);
document.addEventListener('htmx:afterRequest', sent);
}
