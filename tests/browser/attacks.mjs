// What attackers put into titles, logs, names of files, Markdown, pictures and changes: none of it
// runs, and none of it makes a page too heavy to use.

import fs from 'node:fs';
import path from 'node:path';
import { go, live, open } from './lib/browser.mjs';
import { until } from './lib/wait.mjs';

const PWN = 'window.pwned=1;alert(1)';
const EVIL = `<script>${PWN}</script><img src=x onerror="${PWN}"><svg onload="${PWN}"></svg>'"><b onmouseover=${PWN}>`;
const LINKS = `[one](javascript:${PWN}) [two](data:text/html,<script>${PWN}</script>) ![three](x" onerror="${PWN}) <a href="javascript:${PWN}">four</a> <javascript:${PWN}>`;
const SVG = `<svg xmlns="http://www.w3.org/2000/svg" onload="${PWN}" width="40" height="40"><script>${PWN}</script><foreignObject><body xmlns="http://www.w3.org/1999/xhtml" onload="${PWN}"/></foreignObject><rect width="40" height="40"/></svg>`;

/// Most rows of a table or a list that a page may hold, however long the diff or the log.
const ROWS_MAX = 60_000;
const LOG_ROWS_MAX = 1_200;

export default async function attacks({ browser, provost, report, check, quiet }) {
  await provost.start();
  await provost.project({ 'README.md': 'text\n', 'old.html': `${EVIL}\n` });
  const page = await open(browser, provost);
  await scripts({ page, provost, check });
  quiet(page);
  report('no script of others runs, and no page breaks its own policy');
  await refused({ page, provost, check });
  report('a cookie that ended leaves the page as it is');
  const again = await open(browser, provost);
  await log({ page: again, provost, check });
  report('a log of 300,000 lines scrolls to both ends and the middle');
  await diff({ page: again, provost, check, report });
  report('a diff of 100 MB scrolls to both ends and the middle');
  quiet(again);
}

async function scripts({ page, provost, check }) {
  const write = (name, text) => fs.writeFileSync(path.join(provost.folder, name), text);
  write('evil', `${EVIL}\n`);
  write('evil.svg', SVG);
  write('evil.js', `const x = "${EVIL.replaceAll('"', '\\"')}"; </td></table></script><script>${PWN}</script>\n`);
  const { folder } = provost;
  const name = `'a<img src=x onerror=pwned=1>.md'`;
  const prompt = [
    `run cat ${folder}/evil; printf '\\033[31m'; cat ${folder}/evil; printf '\\033]8;;javascript:${PWN}\\033\\\\link\\033]8;;\\033\\\\'`,
    `run cp ${folder}/evil ${name}; cp ${folder}/evil.svg . ; cp ${folder}/evil.js . ; mkdir -p '"><script>'; cp ${folder}/evil '"><script>/x.html'; echo ${JSON.stringify('</td>')} >> old.html`,
    `ask echo ${EVIL}`,
    `say ${EVIL} ${LINKS}`,
  ].join('\n');
  const task = await provost.task(EVIL, { description: `${EVIL} ${LINKS}` });
  const attempt = await provost.attempt(task, 'agent', prompt);
  const failed = await provost.attempt(task, 'fake', `stderr ${EVIL}\nrun cp ${folder}/evil ${name}\nexit 3`);
  await until('it asks', async () => (await provost.status(attempt)).phase === 'waiting');
  await visit(page, `${provost.origin}/`, check);
  await page.getByRole('button', { name: 'Approve' }).click();
  await provost.settled(attempt);
  await provost.settled(failed);
  const { files } = await provost.call('get_attempt_changes', { attempt_id: attempt, force: true });
  for (const file of files.filter((it) => it.status !== 'deleted')) {
    await provost.call('comment_on_changes', { attempt_id: attempt, action: 'add', path: file.path, line: 1, text: `${EVIL} ${LINKS}` });
  }
  const paths = ['/', '/board', `/tasks/${task}`, `/compare/${task}`, '/usage', '/settings'];
  for (const id of [attempt, failed]) {
    paths.push(`/attempts/${id}`, `/attempts/${id}/review`, `/attempts/${id}/review?from_turn=0&layout=split`);
    for (const tab of ['raw', 'normalized', 'errors']) paths.push(`/attempts/${id}/log?tab=${tab}`);
  }
  const svg = files.find((it) => it.path.endsWith('evil.svg')).path;
  const evil = files.find((it) => it.path.includes('<script>')).path;
  paths.push(`/attempts/${attempt}/review/text?path=${encodeURIComponent(evil)}`);
  for (const it of paths) await visit(page, provost.origin + it, check);
  // A picture by itself: a page of its own, in which nothing may run.
  await page.goto(`${provost.origin}/attempts/${attempt}/review/blob?from_turn=0&path=${encodeURIComponent(svg)}&side=new`);
  check((await page.locator('rect').count()) === 1, 'the picture is shown');
  await clean(page, check);
  page.wrongs.clear();
}

/// Opens a page and all that is folded in it, and looks whether anything ran.
async function visit(page, address, check) {
  await go(page, address);
  for (let round = 0; round < 3; round += 1) {
    await page.evaluate(() => {
      for (const fold of document.querySelectorAll('details')) fold.open = true;
      for (const it of document.querySelectorAll('b, .title, td')) it.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
    });
    await until('what it asks for has come', async () => (await page.locator('.htmx-request').count()) === 0);
  }
  for (const tab of await page.locator('[data-tab]').all()) await tab.click();
  await clean(page, check);
  check((await page.locator('main').innerText()).length > 0, `${address} is empty`);
}

async function clean(page, check) {
  const found = await page.evaluate(() => {
    const foreign = [...document.querySelectorAll('script, img, a, iframe, object, embed, form')].filter((it) => {
      const to = it.src || it.href?.baseVal || it.href || it.action || it.data || '';
      return (it.matches('script') && !it.src) || /^(javascript|data|vbscript):/i.test(String(to));
    });
    const handlers = [...document.querySelectorAll('*')].filter((it) => [...it.attributes].some((one) => one.name.startsWith('on')));
    const isPicture = document.documentElement.matches('svg');
    return { pwned: window.pwned, wrong: isPicture ? [] : [...foreign, ...handlers].map((it) => it.outerHTML.slice(0, 200)), violations: isPicture ? [] : window.violations };
  });
  check(found.pwned === undefined, `a script ran in ${page.url()}`);
  check(found.wrong.length === 0, `${page.url()} has ${found.wrong}`);
  check((found.violations ?? []).length === 0, `${page.url()} breaks its policy: ${found.violations}`);
}

/// The page of a browser whose cookie has ended asks no more than before, and keeps what it shows.
async function refused({ page, provost, check }) {
  const task = await provost.task('Before the end');
  await go(page, `${provost.origin}/board`);
  await page.locator('.card', { hasText: 'Before the end' }).waitFor();
  let asked = 0;
  page.on('request', () => { asked += 1; });
  await page.context().clearCookies();
  await provost.call('update_task', { task_id: task, title: 'After the end' });
  await page.waitForResponse((response) => response.status() === 401);
  await provost.call('update_task', { task_id: task, priority: 'high' });
  await until('its requests were answered', async () => (await page.locator('.htmx-request').count()) === 0);
  check((await page.locator('.card', { hasText: 'the end' }).count()) === 1, 'the page lost what it showed');
  check((await page.locator('main').count()) === 1, 'a page stands within the page');
  check(asked < 20, `${asked} requests were made`);
  await page.context().close();
}

async function log({ page, provost, check }) {
  const attempt = await provost.settledAttempt(await provost.task('A long log'), 'fake', 'lines 300000');
  await go(page, `${provost.origin}/attempts/${attempt}`);
  const box = page.locator('.log-box');
  const rows = () => page.locator('.log-box [data-index]').count();
  const bounded = async () => {
    const count = await rows();
    check(count > 0 && count <= LOG_ROWS_MAX, `${count} rows of the log`);
  };
  const shown = (index) => until(`entry ${index} is in view`, () => page.evaluate((wanted) => {
    const row = document.querySelector(`.log-box [data-index="${wanted}"]`);
    const [one, other] = [row?.getBoundingClientRect(), document.querySelector('.log-box').getBoundingClientRect()];
    return row && one.bottom > other.top && one.top < other.bottom;
  }, index));
  const latest = Number(await until('its length', () => page.locator('.log-box ol').getAttribute('data-latest')));
  check(latest >= 299_999, `${latest} entries`);
  await shown(latest);
  await bounded();
  await box.focus();
  await page.keyboard.press('Home');
  await shown(0);
  await bounded();
  await page.keyboard.press('End');
  await shown(latest);
  // The middle, by the slider; then on by the wheel, over many windows.
  await page.locator('[data-log-slider]').fill('150000');
  await shown(150_000);
  await bounded();
  for (let window = 0; window < 10; window += 1) {
    const last = () => page.locator('.log-box [data-index]').last().getAttribute('data-index');
    const before = await last();
    // Once: where the log is busy or a request fails, it goes on without another event.
    await box.evaluate((it) => { it.scrollTop = it.scrollHeight; });
    await until('it goes on', async () => Number(await last()) > Number(before));
    await bounded();
  }
}

async function diff({ page, provost, check, report }) {
  // 100 MB: one file of 40 MB, sixty of 1 MB, and one line of 1 MB.
  const prompt = [
    `run seq -f 'line %010.0f of a file that is much too long to be read' 1 640000 > a-huge.txt`,
    `run for n in $(seq -w 1 60); do seq -f "line %010.0f of file $n, as it is" 1 25600 > "file-$n.rs"; done`,
    `run head -c 1000000 /dev/zero | tr '\\0' x > z-one-line.js`,
    'say So much.',
  ].join('\n');
  const attempt = await provost.settledAttempt(await provost.task('A large diff'), 'fake', prompt);
  const { summary } = await provost.call('get_attempt_changes', { attempt_id: attempt, force: true });
  report(`the agent has written ${summary.added} lines in ${summary.file_count} files`);
  const begun = Date.now();
  await go(page, `${provost.origin}/attempts/${attempt}/review`);
  report(`its review is there after ${Date.now() - begun} ms`);
  const bounded = async () => {
    const count = await page.locator('tr').count();
    check(count <= ROWS_MAX, `${count} rows of changes`);
    return count;
  };
  await bounded();
  const first = page.locator('.file').first();
  await first.waitFor();
  // Down to the end, batch by batch, and back to the middle and the beginning.
  await until('all files are there', async () => {
    await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
    return (await page.locator('.file').count()) === summary.file_count;
  });
  const count = await bounded();
  for (const place of [0.5, 0, 1]) {
    await page.evaluate((at) => window.scrollTo(0, document.documentElement.scrollHeight * at), place);
    const at = await page.evaluate(() => document.elementFromPoint(640, 450)?.closest('.review, main') !== null);
    check(at, 'the page shows its files');
  }
  // Another file's rows, on demand.
  const file = page.locator('.file', { hasText: 'file-01.rs' });
  await file.getByRole('link', { name: 'Show the changes' }).click();
  await file.locator('td.text').first().waitFor();
  await file.locator('a.more', { hasText: 'more rows' }).click();
  await until('further rows have come', async () => (await page.locator('tr').count()) > count + 1500);
  const huge = page.locator('.file', { hasText: 'a-huge.txt' });
  await huge.getByRole('link', { name: 'Show the changes' }).click();
  await huge.getByText('too long to be shown').waitFor();
  await bounded();
  // It is still one that a person can work with.
  await page.keyboard.press('?');
  await page.locator('dialog[open]').waitFor();
  await page.keyboard.press('Escape');
  await live(page);
}
