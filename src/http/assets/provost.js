// What the pages can't do with markup alone: stay current, be used by keyboard, and move cards.
// Each function has one idea; everything here only presses, sends or asks for what the page has.
'use strict';

// ---- Staying current ----

// One stream of notes of what changed. It begins after the last change that the page shows. A
// hidden page has none: a browser opens six connections to a host, for all of its pages together.
const asOf = document.querySelector('meta[name=as-of]');
let stream = null;
let last = asOf && asOf.content;

function listen() {
  if (stream || document.hidden) return;
  stream = new EventSource(last === null ? '/events' : `/events?after=${last}`);
  stream.addEventListener('begin', (event) => {
    last = event.lastEventId;
    say('live', '');
  }, { once: true });
  stream.onopen = () => say('live', '');
  stream.onmessage = (event) => {
    last = event.lastEventId;
    changed(JSON.parse(event.data));
  };
  stream.onerror = () => {
    say('lost', 'Reconnecting…');
    if (stream.readyState !== EventSource.CLOSED) return;
    hush();
    setTimeout(listen, 2000);
  };
}

function hush() {
  if (stream) stream.close();
  stream = null;
}

function say(state, text) {
  const link = document.getElementById('link');
  if (link.dataset.state === state) return;
  link.dataset.state = state;
  link.textContent = text;
}

function changed(note) {
  for (const part of document.querySelectorAll('[data-topic]')) {
    const topics = part.dataset.topic.split(' ');
    const isMeant = topics.includes('*') || topics.includes(note.topic);
    if (isMeant && (!part.dataset.id || part.dataset.id === note.id)) refresh(part);
  }
}

// At most one request of a part is in flight, and the next one begins a moment later: whatever
// changed in between is one more request. A part in which somebody writes or presses waits for its
// end, also with an answer that is there already.
const FEWEST_MS = 250;
const parts = new Map();

function refresh(part) {
  const key = part.id || part;
  const state = parts.get(key) || {};
  parts.set(key, state);
  if (state.isBusy || isInUse(part)) {
    state.isDue = true;
    return;
  }
  state.isBusy = true;
  state.isDue = false;
  htmx.trigger(part, 'changed');
  setTimeout(() => settled(key), FEWEST_MS);
}

function settled(key) {
  const part = typeof key === 'string' ? document.getElementById(key) : key;
  const state = parts.get(key);
  if (!part || !part.isConnected) return void parts.delete(key);
  if (part.classList.contains('htmx-request')) return void setTimeout(() => settled(key), FEWEST_MS);
  state.isBusy = false;
  if (state.isDue) refresh(part);
}

function isInUse(part) {
  const field = document.activeElement;
  if (part.contains(held)) return true;
  if (part.contains(field) && field.matches('select, option')) return true;
  for (const text of part.querySelectorAll('textarea, input:not([type=hidden])')) {
    const isChanged = text.type === 'checkbox' ? text.checked !== text.defaultChecked : text.value !== text.defaultValue;
    if (isChanged || text === field) return true;
  }
  return part.querySelector('.dragged') !== null;
}

function refreshDue() {
  for (const [key, state] of parts) {
    const part = typeof key === 'string' ? document.getElementById(key) : key;
    if (state.isDue && part) refresh(part);
  }
}

// What a pointer or the space bar holds down. A browser makes a click of it only if it is still
// there when it is let go.
let held = null;
const CLICK_MS = 50;

function hold(event) {
  if (event.type === 'pointerdown' || event.key === ' ') held = event.target;
}

function letGo() {
  const was = held;
  // The click comes a moment later.
  setTimeout(() => {
    if (held !== was || was === null) return;
    held = null;
    refreshDue();
  }, CLICK_MS);
}

// A part that is replaced keeps what is open in it, and the control or item in focus; if that is
// gone, the item that took its place gets the focus: the next thing to decide.
let kept = null;

// What a control says, and in which item: so it is found again.
function nameOf(control) {
  const item = control.closest('[data-item]');
  return `${control.localName} ${item ? item.id : ''} ${control.textContent}`;
}

function keep(event) {
  const part = event.detail.target;
  // What went wrong is said below, and takes the place of nothing.
  if (event.detail.xhr.status >= 400 && part.id !== 'said') event.detail.shouldSwap = false;
  if (!part || !part.dataset.topic) return;
  if (isInUse(part)) {
    event.detail.shouldSwap = false;
    parts.set(part.id, { ...parts.get(part.id), isDue: true });
    return;
  }
  const items = [...part.querySelectorAll('[data-item]')];
  const item = document.activeElement.closest('[data-item]');
  const open = [...part.querySelectorAll('details[open][id]')].map((it) => it.id);
  const control = part.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  kept = { part: part.id, control, id: item && part.contains(item) ? item.id : null, index: items.indexOf(item), open };
}

function restore() {
  if (!kept) return;
  const { part, control, id, index, open } = kept;
  kept = null;
  for (const name of open) {
    const details = document.getElementById(name);
    if (details) details.open = true;
  }
  if (control === null || document.activeElement !== document.body) return;
  const controls = [...document.querySelectorAll(`#${CSS.escape(part)} :is(a, button, summary)`)];
  const items = id === null ? [] : visibleItems();
  const next = controls.find((it) => nameOf(it) === control) || document.getElementById(id) || items[Math.min(index, items.length - 1)];
  if (next) next.focus({ preventScroll: true });
}

// ---- Forms ----

// A request that was answered is over: what the form sends next is another one.
function answered(event) {
  const form = event.detail.elt;
  if (!form.matches || !form.matches('form') || event.detail.xhr.status === 0) return;
  const id = form.querySelector('[name=_request_id]');
  if (id) id.value = newId();
  const part = form.closest('[data-topic]');
  if (event.detail.successful) {
    form.reset();
    if (part && form.contains(document.activeElement)) leave(document.activeElement);
  }
  if (part && event.detail.successful) refresh(part);
  refreshDue();
}

// Without crypto.randomUUID, which pages over plain HTTP from another host lack.
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

// Only what a person sent is worth an alert: a part that could not be refreshed is asked for again.
// The request itself tells, because a form that was replaced meanwhile tells no document.
function tellOffline(event) {
  if (event.detail.requestConfig.verb === 'get') return;
  const text = 'The daemon does not answer. Nothing is known to have changed; try again.';
  event.detail.xhr.addEventListener('error', () => tell(text));
}

function tell(text) {
  const alert = document.createElement('p');
  alert.setAttribute('role', 'alert');
  alert.textContent = text;
  document.getElementById('said').replaceChildren(alert);
}

// What was announced goes after a while; what went wrong stays until the next announcement.
let fading = 0;

function fade() {
  clearTimeout(fading);
  const said = document.getElementById('said');
  if (said.querySelector('[role=alert]')) return;
  fading = setTimeout(() => said.replaceChildren(), 5000);
}

// ---- Keys ----

let isGoing = false;

function pressed(event) {
  const field = event.target.closest('input:not([type=checkbox]):not([type=radio]), textarea, select');
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
    const form = event.target.closest('form');
    if (form) form.requestSubmit();
    return;
  }
  if (event.key === 'Escape') return leave(field);
  if (field || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (isGoing || event.key === 'g') {
    go(event);
  } else if (event.key === 'j' || event.key === 'k') {
    move(event.key === 'j' ? 1 : -1);
  } else if (event.key === 'Enter' && event.target.matches('[data-item]')) {
    press(event.target.querySelector('[data-open]'));
  } else if (!press(meant(event.key))) {
    return;
  }
  event.preventDefault();
}

// From a field back to its item, so that the item's keys work again.
function leave(field) {
  const said = document.getElementById('said');
  if (!field) return void said.replaceChildren();
  const item = field.closest('[data-item]');
  field.blur();
  if (item) item.focus();
}

function go(event) {
  if (!isGoing) {
    isGoing = true;
    return void setTimeout(() => { isGoing = false; }, 1500);
  }
  isGoing = false;
  press(document.querySelector(`[data-go="${CSS.escape(event.key)}"]`));
}

function visibleItems() {
  return [...document.querySelectorAll('[data-item]')].filter((item) => item.checkVisibility());
}

function move(step) {
  const items = visibleItems();
  const index = items.indexOf(document.activeElement.closest('[data-item]'));
  const next = items[index < 0 ? 0 : Math.max(0, Math.min(items.length - 1, index + step))];
  if (!next) return;
  next.focus();
  next.scrollIntoView({ block: 'nearest' });
}

// What a key means: the control of the item in focus, else that of the page.
function meant(key) {
  const name = `[data-key="${CSS.escape(key)}"]`;
  const item = document.activeElement.closest('[data-item]');
  const inItem = item && item.querySelector(name);
  return inItem || [...document.querySelectorAll(name)].find((it) => !it.closest('[data-item]'));
}

function press(control) {
  if (!control) return false;
  for (let fold = control.closest('details:not([open])'); fold; fold = fold.parentElement.closest('details:not([open])')) {
    if (control.parentElement === fold && control.matches('summary')) break;
    fold.open = true;
  }
  if (control.matches('input, textarea, select')) control.focus();
  else control.click();
  return true;
}

// A choice that only filters needs no button.
function submitChoice(event) {
  if (event.target.matches('[data-submit]')) event.target.form.requestSubmit();
}

function openDialog(event) {
  const opener = event.target.closest('[data-dialog]');
  if (opener) document.getElementById(opener.dataset.dialog).showModal();
}

// ---- Moving cards ----

// A drop fills in the page's form for moves and sends it.
function dragging(event) {
  const card = event.target.closest && event.target.closest('[draggable=true]');
  const column = event.target.closest && event.target.closest('[data-drop]');
  const moved = document.querySelector('.dragged');
  for (const other of document.querySelectorAll('.drop')) {
    if (other !== column || event.type === 'dragend' || event.type === 'drop') other.classList.remove('drop');
  }
  if (event.type === 'dragstart' && card) {
    card.classList.add('dragged');
    event.dataTransfer.effectAllowed = 'move';
    event.dataTransfer.setData('text/plain', card.id);
  } else if (event.type === 'dragover' && moved && column) {
    event.preventDefault();
    column.classList.add('drop');
  } else if (event.type === 'drop' && moved && column) {
    event.preventDefault();
    moved.classList.remove('dragged');
    if (moved.closest('[data-drop]') !== column) moveTo(moved.dataset.task, column.dataset.drop);
  } else if (event.type === 'dragend' && moved) {
    moved.classList.remove('dragged');
    refreshDue();
  }
}

function moveTo(task, status) {
  const form = document.querySelector('#mover form');
  form.elements.task_id.value = task;
  form.elements.status.value = status;
  form.requestSubmit();
}

// ---- Times ----

function age(seconds) {
  if (seconds < 10) return 'now';
  const units = [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']];
  const [size, unit] = units.find(([size]) => seconds >= size);
  return `${Math.floor(seconds / size)}${unit} ago`;
}

function tick() {
  for (const time of document.querySelectorAll('time[data-ago]')) {
    const text = age((Date.now() - Date.parse(time.dateTime)) / 1000);
    if (time.textContent !== text) time.textContent = text;
  }
}

// ---- Start ----

function start() {
  document.documentElement.classList.add('scripted');
  // What is new is whole at once: a key that is pressed meanwhile finds its item, focus and form.
  htmx.config.defaultSettleDelay = 0;
  document.addEventListener('keydown', pressed);
  document.addEventListener('click', openDialog);
  document.addEventListener('change', submitChoice);
  document.addEventListener('focusout', () => setTimeout(refreshDue, 0));
  for (const type of ['pointerdown', 'keydown']) document.addEventListener(type, hold, true);
  for (const type of ['pointerup', 'pointercancel', 'keyup', 'dragend']) document.addEventListener(type, letGo, true);
  addEventListener('blur', letGo);
  for (const type of ['dragstart', 'dragover', 'drop', 'dragend']) document.addEventListener(type, dragging);
  document.addEventListener('htmx:beforeSwap', keep);
  document.addEventListener('htmx:afterSettle', restore);
  document.addEventListener('htmx:afterRequest', answered);
  document.addEventListener('htmx:beforeSend', tellOffline);
  new MutationObserver(fade).observe(document.getElementById('said'), { childList: true });
  setInterval(tick, 20000);
  document.addEventListener('visibilitychange', () => (document.hidden ? hush() : listen()));
  listen();
}

// The script is deferred: the document is there.
start();
