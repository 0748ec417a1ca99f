// A reviewer gets thirty finished attempts off the inbox with the keyboard alone.

import { go, open } from './lib/browser.mjs';
import { until } from './lib/wait.mjs';

const COUNT = 30;
const MOST_KEYS = 4;

export default async function reviewer({ browser, provost, report, check, quiet }) {
  await provost.start();
  await provost.project();
  const work = [];
  for (let number = 0; number < COUNT; number += 1) {
    const task = await provost.task(`Task number ${number}`);
    work.push({ task, attempt: await provost.attempt(task, 'fake', `write file-${number}.txt ${number}\nsay ready`) });
  }
  for (const { attempt } of work) await provost.settled(attempt);
  const page = await open(browser, provost);
  await go(page, `${provost.origin}/`);
  const items = page.locator('.item');
  await until('all are in the inbox', async () => (await items.count()) === COUNT);
  report(`${COUNT} finished attempts are in the inbox`);

  // The keys that each attempt took; a question of the page takes one more, Enter.
  const keys = new Map();
  let current;
  const count = () => keys.set(current, (keys.get(current) ?? 0) + 1);
  page.on('dialog', count);
  const press = async (key) => {
    count();
    await page.keyboard.press(key);
  };
  const plan = new Map(work.map(({ attempt }, number) => [attempt, ['m', 'm', 'd', 'e'][number % 4]]));
  const empty = page.getByText('Nothing needs you.');
  // One that is being finished needs no key.
  const focused = page.locator('.item:focus').filter({ hasNotText: 'being finished' });
  // The first item, of the newest attempt; from then on the focus is on what takes the place of the
  // item that went. What was merged comes back until its task is done too.
  current = work[COUNT - 1].attempt;
  await press('j');
  for (;;) {
    await focused.or(empty).waitFor();
    if (await empty.isVisible()) break;
    const id = await focused.getAttribute('id');
    const kind = await focused.locator('.badge').first().textContent();
    current = id.slice(id.indexOf('-') + 1);
    await press(kind.includes('merged') ? 'e' : plan.get(current));
    await page.locator(`[id="${id}"]`, { hasText: kind }).waitFor({ state: 'detached' });
  }
  const all = [...keys.values()];
  const most = Math.max(...all);
  check(keys.size === COUNT && most <= MOST_KEYS, `keys of each: ${all}`);
  report(`the inbox is empty: at most ${most} keys each, ${all.reduce((sum, it) => sum + it)} in all`);

  // What was meant has become of each.
  const log = (await provost.git('log', '--format=%s', 'main')).trim().split('\n');
  check(log.length === 1 + work.filter(({ attempt }) => plan.get(attempt) === 'm').length, `merged: ${log}`);
  const { tasks } = await provost.call('list_tasks', { project_id: provost.project_id, limit: 100 });
  const done = tasks.filter((it) => it.status === 'done').length;
  check(done === work.filter(({ attempt }) => plan.get(attempt) !== 'd').length, `${done} tasks are done`);
  await until('nothing waits', async () => (await page.locator('#waiting').innerText()) === '');
  quiet(page);
}
