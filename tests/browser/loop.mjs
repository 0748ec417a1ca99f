// The whole loop of a task in the page alone, with the daemon killed twice on the way.

import fs from 'node:fs';
import path from 'node:path';
import { go, live, open } from './lib/browser.mjs';
import { until } from './lib/wait.mjs';

const GREET = `def greet(name):
    return "hello " + name


def part(name):
    return "bye " + name


def main():
    print(greet("you"))
    print(part("you"))
`;

/// What the agent writes; each comment then asks for another line of it.
const FIRST = GREET.replace('"hello " + name', 'f"HELLO {name}"').replace('"bye " + name', 'f"BYE {name}"');

export default async function loop({ browser, provost, report, check, quiet }) {
  await provost.start();
  await provost.project({ 'greet.py': GREET, 'README.md': 'Greets.\n' });
  let isDown = false;
  const page = await open(browser, provost, { isOffline: () => isDown });
  const restart = async (shown) => {
    isDown = true;
    await provost.kill();
    await page.locator('#link[data-state=lost]').waitFor();
    await shown();
    await provost.start();
    await live(page);
    isDown = false;
  };
  const said = (text) => page.locator('.log-box', { hasText: text }).waitFor();
  report('a link leads to the inbox');
  await page.getByText('Nothing needs you.').waitFor();

  // A new task, by the keyboard.
  await page.keyboard.press('g');
  await page.keyboard.press('b');
  await page.waitForURL('**/board');
  await live(page);
  await page.keyboard.press('n');
  await page.keyboard.type('Greet louder');
  const flag = path.join(provost.folder, 'go');
  const script = [
    'run echo step one', `run until [ -e ${flag} ]; do sleep 0.02; done; echo step two`, 'ask make greetings',
    `run cp ${path.join(provost.folder, 'first.py')} greet.py; echo Greets louder. >> README.md`, 'say It greets louder now.',
  ];
  fs.writeFileSync(path.join(provost.folder, 'first.py'), FIRST);
  await page.locator('#new-task textarea[name=description]').fill(script.join('\n'));
  await page.keyboard.press('Control+Enter');
  const card = page.locator('#column-waiting .card', { hasText: 'Greet louder' });
  await card.waitFor();
  report('a new task is on the board');

  // Its start, from its card.
  await card.getByText('Actions').click();
  await card.locator('select[name=executor]').selectOption('agent');
  await card.getByRole('button', { name: 'Start attempt' }).click();
  await page.locator('#column-working .card', { hasText: 'Greet louder' }).waitFor();
  await page.locator('#column-working .card a', { hasText: 'agent' }).click();
  await page.waitForURL('**/attempts/*');
  const attempt = new URL(page.url()).pathname.split('/').pop();
  report('it is started and moves to the working column');

  // Watched live: what comes is shown without a reload.
  await page.evaluate(() => { window.isSame = true; });
  await said('step one');
  check(!(await page.locator('.log-box').innerText()).includes('"step two"'), 'the second step came too early');
  fs.writeFileSync(flag, '');
  await said('step two');
  await page.locator('#attempt-head', { hasText: 'waiting' }).waitFor();
  await page.locator('#waiting', { hasText: '1' }).waitFor();
  check(await page.evaluate(() => window.isSame), 'the page was loaded again');
  report('the log comes by itself, and so does the state');

  // The approval, in the inbox, over the death of the daemon.
  await go(page, `${provost.origin}/`);
  const asks = page.locator('.item', { hasText: 'make greetings' });
  await asks.waitFor();
  await restart(() => asks.waitFor());
  await asks.waitFor();
  report('the daemon was killed, the inbox stayed, and the page is back by itself');
  await asks.getByRole('button', { name: 'Approve' }).click();
  await asks.waitFor({ state: 'detached' });
  await provost.settled(attempt);
  const review = page.locator('.item', { hasText: 'Greet louder' });
  await review.waitFor();
  await page.locator('.item', { hasText: 'It greets louder now.' }).waitFor();
  report('the approval is answered, and the work comes to review');

  // Three comments, of which one is being written when the daemon dies again.
  await review.getByRole('link', { name: 'Review' }).click();
  await page.waitForURL('**/review');
  await live(page);
  await page.evaluate(() => { window.isSame = true; });
  const greet = page.locator('.file', { hasText: 'greet.py' });
  const line = (file, number) => file.locator(`td.text[data-side=new][data-line="${number}"]`);
  const number = (file, at) => line(file, at).locator('xpath=preceding-sibling::td[contains(@class, "no")][1]');
  const write = async (file, text) => {
    await file.locator('tr.writing textarea').fill(text);
    await file.getByRole('button', { name: 'Add comment' }).click();
    await file.locator('.comment', { hasText: text }).waitFor();
  };
  await number(greet, 2).click();
  await write(greet, "run sed -i 's/HELLO/Good day,/' greet.py");
  // A range by the keyboard: the second function, from its first line on.
  await line(greet, 5).click();
  await page.keyboard.press('Shift+ArrowDown');
  await page.keyboard.press('c');
  await page.getByText('lines 5 to 6').waitFor();
  await write(greet, "run sed -i 's/BYE/Farewell,/' greet.py");
  const readme = page.locator('.file', { hasText: 'README.md' });
  await number(readme, 2).click();
  const third = "run sed -i 's/louder/politely/' README.md";
  await readme.locator('tr.writing textarea').fill(third);
  await page.locator('#review-bar', { hasText: '2 draft' }).waitFor();
  const text = () => readme.locator('tr.writing textarea').inputValue();
  await restart(async () => check((await text()) === third, 'the comment was lost with the daemon'));
  check((await text()) === third, 'the comment was lost with the reconnection');
  check((await greet.locator('.comment').count()) === 2, 'a draft was lost');
  await write(readme, third);
  await page.locator('#review-bar', { hasText: '3 draft' }).waitFor();
  check(await page.evaluate(() => window.isSame), 'the page was loaded again');
  await page.reload();
  await live(page);
  check((await page.locator('.comment').count()) === 3, 'three drafts are there after a reload');
  report('three comments, with the daemon killed in the midst of them');

  // One submit, one follow-up.
  await page.getByRole('button', { name: 'Submit 3 comments' }).dblclick();
  await page.locator('#review-bar', { hasText: '3 addressed' }).waitFor();
  const turns = (await provost.settled(attempt, 2)).latest_snapshot_turn;
  const { comments } = await provost.call('comment_on_changes', { attempt_id: attempt, action: 'list' });
  const reviews = new Set(comments.map((it) => it.review_id));
  check(turns === 2 && reviews.size === 1 && comments.length === 3, `one follow-up of three: ${JSON.stringify(comments)}`);
  await page.getByText('Another turn has ended.').waitFor();
  await page.getByRole('link', { name: 'Show its changes' }).click();
  await page.locator('td.text', { hasText: 'Good day,' }).waitFor();
  check((await page.locator('.comment', { hasText: 'addressed' }).count()) === 3, 'each comment is addressed');
  report('one submit is one follow-up, and its turn addresses all three');

  // Resolved, merged, done.
  for (let left = 3; left > 0; left -= 1) {
    await page.getByRole('button', { name: 'Resolve' }).first().click();
    await until('a comment is resolved', async () => (await page.getByRole('button', { name: 'Resolve' }).count()) === left - 1);
  }
  await page.locator('#review-bar', { hasText: '3 resolved' }).waitFor();
  await page.getByRole('button', { name: 'Merge (squash)' }).click();
  await page.locator('#review-bar .receipt', { hasText: 'done' }).waitFor();
  const log = (await provost.git('log', '--format=%s', 'main')).trim().split('\n');
  check(log.length === 2, `one commit was squashed: ${log}`);
  check((await provost.git('show', 'main:greet.py')).includes('Good day,'), 'the work is in the target branch');
  await page.getByRole('button', { name: 'Mark done' }).click();
  await page.getByRole('button', { name: 'Mark done' }).waitFor({ state: 'detached' });
  await go(page, `${provost.origin}/board`);
  await page.locator('#column-done .card', { hasText: 'Greet louder' }).waitFor();
  await go(page, `${provost.origin}/`);
  await page.getByText('Nothing needs you.').waitFor();
  report('squashed into the target branch, and the task is done');
  quiet(page);
}
