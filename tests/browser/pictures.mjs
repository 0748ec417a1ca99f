// The pictures in README: the review of an attempt, and commands in a terminal, on a real daemon with
// the executor `fake`. They are of the same project; its ids and commits are others each time.

import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { go, open } from './lib/browser.mjs';
import { until } from './lib/wait.mjs';

const run = promisify(execFile);
const PICTURES = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), '../../docs/pictures');
const BYTES_MAX = 150_000;
const PAGE = { width: 1200, height: 750 };
const COLUMNS = 96;

const NOTES = `"""Notes, a list of texts."""


def add(text, notes):
    """Puts a note at the end."""
    return [*notes, text]


def find(word, notes):
    """The notes that contain a word."""
    return [note for note in notes if word in note]
`;

const TEST = `from notes import find

assert find("milk", ["Buy milk", "Call Ada"]) == ["Buy milk"]
`;

const FOUND = '    return [note for note in notes if word in note]';

/// What two attempts at the same task make of it.
const IN_LOWER_CASE = NOTES.replace(FOUND, '    word = word.lower()\n    return [note for note in notes if word in note.lower()]');
const BY_PATTERN = NOTES.replace('texts."""', 'texts."""\n\nimport re')
  .replace(FOUND, '    pattern = re.compile(re.escape(word), re.IGNORECASE)\n    return [note for note in notes if pattern.search(note)]');

/// The prompt of the attempt in the terminal.
const PROMPT = `Strip the blanks around a new note
think add() should keep " milk " as "milk".
run sed -i 's/, text]/, text.strip()]/' notes.py
run python3 test_notes.py && git diff --shortstat
say add() strips its text now, and the test passes.
`;

/// What a terminal makes of the colours that the commands use.
const COLOURS = { 31: '#ff7b72', 32: '#56d364', 33: '#e3b341', 34: '#79c0ff', 35: '#d2a8ff', 36: '#56d4dd' };

const TERMINAL = `
  body { margin: 0; background: #0d1117; }
  pre { box-sizing: content-box; display: inline-block; width: ${COLUMNS}ch; margin: 0; padding: 16px 20px;
    color: #d0d7de; background: #0d1117; font: 13px/17px 'DejaVu Sans Mono', monospace; font-variant-ligatures: none; }
`;

export default async function pictures({ browser, provost, report, check, quiet }) {
  await provost.start();
  await provost.project({ 'notes.py': NOTES, 'test_notes.py': TEST, '.gitignore': '__pycache__/\n' }, { name: 'notes', folder: 'notes' });
  const reviewed = await fill(provost);
  report('a project is under way');

  fs.mkdirSync(PICTURES, { recursive: true });
  const look = { viewport: PAGE, deviceScaleFactor: 1, colorScheme: 'light', reducedMotion: 'reduce' };
  const page = await open(browser, provost, look);
  await go(page, `${provost.origin}/attempts/${reviewed}/review`);
  await page.locator('#review-bar', { hasText: '1 draft' }).waitFor();
  await until('all is loaded', async () => (await page.locator('.htmx-request').count()) === 0);
  await take(page, 'page.png', check);
  quiet(page);
  report('the page is taken');

  const screen = await browser.newContext(look).then((context) => context.newPage());
  await screen.setContent(`<!doctype html><meta charset="utf-8"><style>${TERMINAL}</style><pre>${await session(provost)}</pre>`);
  await take(screen.locator('pre'), 'terminal.png', check);
  report('the terminal is taken');
}

/// A picture of a page, or of a part of one.
async function take(shown, name, check) {
  const file = path.join(PICTURES, name);
  await shown.screenshot({ path: file, animations: 'disabled' });
  const { size } = fs.statSync(file);
  check(size <= BYTES_MAX, `${name} has ${size} bytes`);
}

/// Tasks in different states: done, failed, to review, asking, running and waiting for another one.
/// Returns the attempt that is reviewed.
async function fill(provost) {
  const file = (name, content) => {
    fs.writeFileSync(path.join(provost.folder, name), content);
    return path.join(provost.folder, name);
  };
  const attempt = (task, ...lines) => provost.attempt(task, 'fake', lines.join('\n'));
  const settled = async (...words) => {
    const id = await attempt(...words);
    await provost.settled(id);
    return id;
  };

  const licence = await provost.task('Add a licence');
  const merged = await settled(licence, 'write LICENSE MIT', 'say I have added the MIT licence.');
  await provost.call('finish_attempt', { attempt_id: merged, action: 'merge', strategy: 'squash' });
  await provost.call('update_task', { task_id: licence, status: 'done' });
  await settled(await provost.task('Read notes from a URL'), 'stderr There is no network here.', 'exit 3');

  const find = await provost.task('Find notes in upper and lower case', { priority: 'high', description: 'A search for `milk` has to find `Milk` too.' });
  await settled(find, `run cp ${file('by_pattern.py', BY_PATTERN)} notes.py`, 'say The search uses a pattern that ignores case.');
  const tested = `run echo 'assert find("milk", ["Milk"]) == ["Milk"]' >> test_notes.py`;
  const reviewed = await settled(find, `run cp ${file('in_lower_case.py', IN_LOWER_CASE)} notes.py`, tested, 'say The search compares both in lower case.');
  await discuss(provost, reviewed);

  const question = { query: 'Which form do dates have: 2026-11-27, or that of the locale?', max_wait_seconds: 600 };
  await attempt(await provost.task('Print the date of each note'), `run ${provost.program} call getImmediateAnswer '${JSON.stringify(question)}'`);
  await until('it asks', async () => (await provost.verb('inbox')).includes(question.query));
  const running = await attempt(await provost.task('Number the notes'), 'think The numbers begin with 1.', 'hang');
  await provost.task('Describe the search in README', { depends_on: [find] });
  await until('it runs', async () => (await provost.status(running)).phase === 'running');
  return reviewed;
}

/// A comment that the agent's next turn addresses, and a draft of another one.
async function discuss(provost, attempt) {
  const comment = (more) => provost.call('comment_on_changes', { attempt_id: attempt, ...more });
  const { files } = await provost.call('get_attempt_changes', { attempt_id: attempt, force: true });
  const code = files.find((it) => it.path.endsWith('/notes.py')).path;
  await comment({ action: 'add', path: code, line: 11, text: 'Please use `casefold()`: it also finds “ß” in “SS”.' });
  // `fake` does what the message says, and repeats the comment.
  await comment({ action: 'submit', text: "run sed -i 's/lower()/casefold()/' notes.py" });
  await provost.settled(attempt, 2);
  await comment({ action: 'add', path: code, line: 12, text: 'Please fold the word and the notes in one helper, so that the two can’t differ later on, and add a test with “ß” and “SS”.' });
}

// ---- The terminal ----

/// Runs a command line in a terminal of its own; ends with its exit code.
const PTY = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(["sh", "-c", sys.argv[1]])))';

/// What a terminal shows of some commands, as HTML.
async function session(provost) {
  const bin = path.join(provost.folder, 'bin');
  fs.mkdirSync(bin);
  fs.symlinkSync(provost.program, path.join(bin, 'provost'));
  fs.writeFileSync(path.join(provost.person, 'prompt.txt'), PROMPT);
  const env = { ...provost.environment, PATH: `${bin}:${process.env.PATH}`, TERM: 'xterm-256color', GIT_PAGER: 'cat' };
  const shown = [];
  // `diff` and git print no colours elsewhere than in a terminal.
  const type = async (command) => {
    const line = `stty cols ${COLUMNS}; ${command}`;
    const { stdout } = await run('python3', ['-c', PTY, line], { cwd: provost.repo, env });
    shown.push(`<span style="color:${COLOURS[32]}">$</span> <b>${escaped(command)}</b>\n${html(stdout.replaceAll('\r', ''))}`);
  };
  await type('provost run --executor fake --follow "$(cat ~/prompt.txt)"');
  await type('provost ps');
  const { attempts: [{ attempt_id: newest }] } = JSON.parse(await provost.verb('ps', '--json'));
  const id = newest.slice(-8);
  await type(`provost diff ${id}`);
  await type(`provost merge ${id} --strategy squash`);
  await type('git log --oneline --no-decorate');
  return shown.join('\n').trimEnd();
}

/// Text with the colours that its escape sequences name; other escape sequences are an error.
function html(text) {
  let style = {};
  const spans = text.split(/(\x1b\[[\d;]*m)/).map((part) => {
    if (!part.startsWith('\x1b')) return `<span style="${Object.values(style).join(';')}">${escaped(part)}</span>`;
    for (const code of part.slice(2, -1).split(';').map(Number)) {
      if (code === 0) style = {};
      else if (code === 1) style.weight = 'font-weight:bold';
      else if (code === 2) style.dim = 'opacity:.65';
      else if (COLOURS[code]) style.colour = `color:${COLOURS[code]}`;
      else throw new Error(`the terminal has no style ${code}`);
    }
    return '';
  });
  return spans.join('');
}

function escaped(text) {
  if (text.includes('\x1b')) throw new Error(`an escape sequence: ${JSON.stringify(text)}`);
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
