// Every page, with something of everything on it: judged by axe-core, photographed at the width of
// a desktop and of a phone, dark and light, and never wider than the screen.

import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { AXE, go, open } from './lib/browser.mjs';
import { until } from './lib/wait.mjs';

const WIDTHS = { desktop: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } };
const SCHEMES = ['light', 'dark'];

const CODE = `//! A small server.

use std::net::TcpListener;

/// Serves until it is told to stop.
pub fn serve(address: &str) -> std::io::Result<()> {
    let listener = TcpListener::bind(address)?;
    for stream in listener.incoming() {
        handle(stream?)?; // one after the other
    }
    Ok(())
}
`;

const CHANGED = CODE
  .replace('/// Serves until it is told to stop.', '/// Serves on an address, each connection in a thread of its own, until the process ends or the listener fails; a long line.')
  .replace('        handle(stream?)?; // one after the other', '        let stream = stream?;\n        std::thread::spawn(move || handle(stream));');

const WORDS = [
  '## What I did', 'I gave each connection **a thread of its own**, and wrote `serve` anew:', '',
  '- `src/server.rs`: threads instead of a loop', '- `logo.png`: the new logo', '',
  '| file | lines |', '|---|---|', '| src/server.rs | 12 |', '', '```rust', 'std::thread::spawn(move || handle(stream));', '```',
].join('\n');

export default async function pages({ browser, provost, report, shots, check, quiet }) {
  fs.rmSync(shots, { recursive: true, force: true });
  await provost.start();
  await provost.project({ 'src/server.rs': CODE, 'README.md': 'A server.\n', 'docs/a/rather/deep/path/to/a/document.md': 'Text.\n' });
  fs.writeFileSync(path.join(provost.repo, 'logo.png'), png(48, [200, 60, 60]));
  await provost.git('add', '--all');
  await provost.git('commit', '--quiet', '--message=A logo');
  const seen = await fill(provost);
  report('something of everything is there');

  const page = await open(browser, provost, { scripts: [AXE] });
  const found = [];
  for (const [name, { address, before, isScreen }] of Object.entries(seen)) {
    for (const [width, viewport] of Object.entries(WIDTHS)) {
      await page.setViewportSize(viewport);
      for (const colorScheme of SCHEMES) {
        await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
        if (colorScheme === SCHEMES[0]) {
          await go(page, provost.origin + address);
          await before?.(page);
        }
        await until('all is loaded', async () => (await page.locator('.htmx-request').count()) === 0);
        await whole(page, path.join(shots, `${name}-${width}-${colorScheme}.png`), isScreen);
        found.push(...(await twice(page)).map((id) => `${name}: two elements have the id ${id}`));
        found.push(...(await judged(page)).map((it) => `${name}, ${width}, ${colorScheme}: ${it}`));
      }
      const [needs, has] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      if (needs > has) found.push(`${name}, ${width}: the document is ${needs} px wide in a window of ${has}: ${await widest(page)}`);
    }
  }
  check(found.length === 0, `\n${found.join('\n')}`);
  report(`${Object.keys(seen).length} pages in ${SCHEMES.length} schemes and ${Object.keys(WIDTHS).length} widths: no violation, none too wide`);
  quiet(page);
}

/// A picture of all of a page, up to some screens.
async function whole(page, file, isScreen = false) {
  await page.evaluate(() => { document.activeElement?.blur(); window.scrollTo(0, 0); });
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  const { width } = page.viewportSize();
  const part = isScreen ? {} : { fullPage: true, clip: { x: 0, y: 0, width, height: Math.min(height, 4000) } };
  await page.screenshot({ path: file, animations: 'disabled', ...part });
}

async function judged(page) {
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
  return violations.map((it) => `${it.impact} ${it.id}: ${it.help}: ${it.nodes.slice(0, 3).map((node) => `${node.target} ${node.html.slice(0, 160)} ${node.any[0]?.message ?? ''}`).join(' | ')}`);
}

/// Ids that more than one element has: a part that was added instead of replaced, say.
function twice(page) {
  return page.evaluate(() => {
    const ids = [...document.querySelectorAll('[id]')].map((it) => it.id);
    return [...new Set(ids.filter((id, at) => ids.indexOf(id) !== at))];
  });
}

function widest(page) {
  return page.evaluate(() => {
    const right = (it) => it.getBoundingClientRect().right;
    const [first] = [...document.querySelectorAll('main *, header *')].sort((one, other) => right(other) - right(one));
    return first.outerHTML.slice(0, 200);
  });
}

/// A project in which everything happens; returns the pages to look at.
async function fill(provost) {
  const { folder } = provost;
  const file = (name, content) => {
    fs.writeFileSync(path.join(folder, name), content);
    return path.join(folder, name);
  };
  const [code, logo] = [file('server.rs', CHANGED), file('logo.png', png(64, [60, 90, 200]))];
  const change = [`run cp ${code} src/server.rs; cp ${logo} logo.png; seq 1 40 > numbers.txt; git rm -q docs -r`, `words ${JSON.stringify(WORDS)}`];

  // One task with three attempts, of which one is reviewed.
  const server = await provost.task('Serve each connection in a thread of its own', { priority: 'high', description: 'So that a slow client holds up no other.\n\nKeep the signature of `serve`.' });
  const reviewed = await provost.attempt(server, 'agent', change.join('\n'));
  const others = [
    await provost.attempt(server, 'fake', `run cp ${code} src/server.rs\nthink a while\nsay Threads it is.`),
    await provost.attempt(server, 'fake', 'write other.txt text\nstderr something failed\nexit 3'),
  ];
  const long = await provost.task('A title that goes on and on, with a_very_long_identifier_that_no_browser_would_break_by_itself_anywhere_at_all and more words after it', { priority: 'low' });
  const asks = await provost.attempt(await provost.task('Publish the release', { priority: 'critical' }), 'agent', `ask cargo publish --registry internal --allow-dirty && git push origin v1.2.3 --follow-tags --quiet && echo "a command that is rather long"\nsay done`);
  await provost.call('create_task', { project_id: provost.project_id, title: 'Write the changelog', depends_on: [server] });
  const limited = await provost.attempt(await provost.task('Measure it'), 'agent', `limit ${Math.floor(Date.now() / 1000) + 3600}`);
  const running = await provost.attempt(await provost.task('Work that goes on'), 'fake', 'say I have begun.\nlines 20\nhang');
  const conflicting = await provost.task('Say it in other words');
  const [merged, left] = [await provost.attempt(conflicting, 'fake', 'run echo one > README.md'), await provost.attempt(await provost.task('Say it again'), 'fake', 'run echo two > README.md')];
  const closed = await provost.task('Something done before');
  await provost.call('update_task', { task_id: closed, status: 'done' });
  await provost.attempt(long, 'fake', 'write a/file/with/a/very/long/path/that/has/to/be/cut/somewhere/in/the/middle/of/it/file.txt text\nsay Ready.').then((id) => provost.settled(id));
  await provost.verb('call', 'createTicket', JSON.stringify({ title: 'Which port is it to listen on?', description: 'The plan names two: 8080 and 8443.', priority: 'high' })).catch(() => {});
  await provost.settled(reviewed);
  for (const id of [...others, merged, left]) await provost.settled(id);
  await provost.call('finish_attempt', { attempt_id: merged, action: 'merge', strategy: 'squash' });
  await until('it asks', async () => (await provost.status(asks)).phase === 'waiting');
  await until('it runs', async () => (await provost.status(running)).phase === 'running');
  await until('it waits', async () => (await provost.status(limited)).phase !== 'running');

  // Comments in all states.
  const { files } = await provost.call('get_attempt_changes', { attempt_id: reviewed, force: true });
  const at = files.find((it) => it.path.endsWith('server.rs')).path;
  const comment = (more) => provost.call('comment_on_changes', { attempt_id: reviewed, ...more });
  await comment({ action: 'add', path: at, line: 9, last_line: 10, text: `run sed -i 's/let stream = stream?;/let stream = stream?; \\/\\/ fails the loop/' src/server.rs` });
  await comment({ action: 'add', path: at, line: 7, text: 'say `bind` may fail: who is told?' });
  await comment({ action: 'submit', text: 'say I have read the comments.' });
  await provost.settled(reviewed, 2);
  await comment({ action: 'add', path: at, line: 3, text: 'A **draft** with `code`.' });

  const opened = (selector) => async (page) => {
    for (const it of await page.locator(selector).all()) await it.click();
  };
  const loaded = (selector) => async (page) => page.locator(selector).first().waitFor();
  return {
    inbox: { address: '/', before: async (page) => {
      await page.locator('#waiting:not(:empty)').waitFor();
      await opened('.item details > summary[data-key=o]')(page);
      await until('the files are there', async () => (await page.locator('.item details[open] ul.mono').count()) === (await page.locator('.item details[open] > summary[data-key=o]').count()));
    } },
    board: { address: '/board', before: async (page) => {
      await page.keyboard.press('n');
      await page.locator('.card summary', { hasText: 'Actions' }).first().click();
      await page.locator('.card details[open] form').first().waitFor();
    } },
    task: { address: `/tasks/${server}`, before: loaded('#tools form') },
    attempt: { address: `/attempts/${reviewed}`, before: loaded('.log-box [data-index]') },
    running: { address: `/attempts/${running}`, before: loaded('.processes td') },
    log: { address: `/attempts/${reviewed}/log?tab=normalized` },
    review: { address: `/attempts/${reviewed}/review`, before: async (page) => {
      await page.locator('td.no').nth(12).click();
      await page.locator('tr.writing textarea').waitFor();
    } },
    split: { address: `/attempts/${reviewed}/review?from_turn=0&layout=split`, before: loaded('.diff.beside') },
    compare: { address: `/compare/${server}` },
    usage: { address: '/usage' },
    settings: { address: '/settings', before: loaded('tbody td') },
    keys: { address: '/', isScreen: true, before: async (page) => {
      await page.keyboard.press('?');
      await page.locator('dialog[open]').waitFor();
    } },
  };
}

/// A picture: a square in a colour.
function png(size, colour) {
  const row = Buffer.concat([Buffer.of(0), ...Array.from({ length: size }, () => Buffer.from(colour))]);
  const head = Buffer.alloc(13);
  head.writeUInt32BE(size, 0);
  head.writeUInt32BE(size, 4);
  head.set([8, 2, 0, 0, 0], 8);
  const chunk = (kind, data) => {
    const body = Buffer.concat([Buffer.from(kind), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc(body));
    return Buffer.concat([length, body, sum]);
  };
  const data = zlib.deflateSync(Buffer.concat(Array.from({ length: size }, () => row)));
  return Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), chunk('IHDR', head), chunk('IDAT', data), chunk('IEND', Buffer.alloc(0))]);
}

function crc(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return (sum ^ 0xffffffff) >>> 0;
}
