// The page of a gateway whose attempts another host runs, with the gateway killed on the way. It needs
// a PostgreSQL server, which `.ci/postgres COMMAND` gives it.

import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { live, open } from './lib/browser.mjs';
import { Provost } from './lib/provost.mjs';

const run = promisify(execFile);

/// The URL of a new database of the server.
async function database(server, programs) {
  const name = `browser_${process.pid}`;
  await run(path.join(programs, 'psql'), ['-X', '-q', '-d', server, '-c', `CREATE DATABASE ${name}`]);
  return server.replace('/postgres?', `/${name}?`);
}

export default async function hosts({ browser, provost, report, shots, check, quiet }) {
  const { PROVOST_TEST_POSTGRES: server, PROVOST_TEST_POSTGRES_BIN: programs, PROVOST_TEST_ALL: all } = process.env;
  if (!server) {
    check(!all, 'PROVOST_TEST_POSTGRES is not set');
    report('left out: it needs PostgreSQL, which `.ci/postgres COMMAND` gives it');
    return;
  }
  const url = await database(server, programs);
  const worker = new Provost(provost.program, path.join(provost.folder, 'worker'));
  const board = `[engine]\nurl = '${url}'\ndurability = 'single'\n[host]\n`;
  provost.config(`${board}name = 'front'\nrole = 'gateway'`);
  worker.config(`${board}name = 'worker-1'\nrole = 'worker'\nrepositories = 'mirrors'`);
  await provost.start();
  await worker.start(() => worker.verb('ps'));
  try {
    await drive({ browser, provost, report, shots, check, quiet });
  } finally {
    await worker.end();
  }
}

async function drive({ browser, provost, report, shots, check, quiet }) {
  await provost.project();
  let isDown = false;
  const page = await open(browser, provost, { isOffline: () => isDown });
  const flag = path.join(provost.folder, 'go');
  const script = ['say step one', `run until [ -e ${flag} ]; do sleep 0.02; done; echo step two`, 'run sleep 600'];
  const task = await provost.task('Made elsewhere', { description: script.join('\n') });
  await page.goto(`${provost.origin}/board`);
  const card = page.locator('.card', { hasText: 'Made elsewhere' });
  await card.getByText('Actions').click();
  await card.locator('select[name=executor]').selectOption('fake');
  await card.getByRole('button', { name: 'Start attempt' }).click();
  await page.locator('#column-working .card a', { hasText: 'fake' }).click();
  await page.waitForURL('**/attempts/*');
  await live(page);
  const attempt = new URL(page.url()).pathname.split('/').pop();
  await page.locator('#attempt-head', { hasText: 'On worker-1' }).waitFor();
  report('a gateway starts it, and the page names the host that runs it');

  const said = (text) => page.locator('.log-box', { hasText: text }).waitFor();
  await page.evaluate(() => { window.isSame = true; });
  await said('step one');
  isDown = true;
  await provost.kill();
  await page.locator('#link[data-state=lost]').waitFor();
  fs.writeFileSync(flag, '');
  await provost.start();
  await live(page);
  isDown = false;
  await said('step two');
  check(await page.evaluate(() => window.isSame), 'the page was loaded again');
  fs.mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: path.join(shots, 'hosts-running.png'), fullPage: true });
  report('its log comes by itself, and goes on after the gateway was killed');

  await page.locator('#attempt-head').getByRole('button', { name: 'Stop' }).first().click();
  await page.locator('#attempt-head', { hasText: 'killed' }).waitFor();
  await page.locator('textarea[name=prompt]').fill('write made.txt text\nsay It is made.');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('It is made.').first().waitFor();
  await provost.settled(attempt, 2);
  report('it is stopped, and a follow-up goes on');

  await page.goto(`${provost.origin}/attempts/${attempt}/review`);
  await live(page);
  await page.locator('.file', { hasText: 'made.txt' }).waitFor();
  await page.screenshot({ path: path.join(shots, 'hosts-review.png'), fullPage: true });
  await page.getByRole('button', { name: 'Merge (squash)' }).click();
  await page.locator('#review-bar .receipt', { hasText: 'done' }).waitFor();
  check((await provost.git('show', 'main:made.txt')).trim() === 'text', 'the work is in the target branch');
  const { attempts } = await provost.call('list_task_attempts', { task_id: task });
  check(attempts.length === 1, `one attempt: ${JSON.stringify(attempts)}`);
  report('its changes are shown and merged');
  quiet(page);
}
