// Whatever is pressed while the page changes under it takes effect, or says that it did not.

import { go, open } from './lib/browser.mjs';
import { until } from './lib/wait.mjs';

const QUESTIONS = 4;

export default async function presses({ browser, provost, report, check, quiet }) {
  await provost.start();
  await provost.project();
  const ids = [];
  for (let number = 0; number < QUESTIONS; number += 1) {
    const id = await provost.attempt(await provost.task(`Publish ${number}`), 'agent', `ask make part-${number}\nsay done`);
    await until('it asks', async () => (await provost.status(id)).phase === 'waiting');
    ids.push(id);
  }
  let isOffline = false;
  const page = await open(browser, provost, { isOffline: () => isOffline });
  await go(page, `${provost.origin}/`);
  const item = (number) => page.locator('.item', { hasText: `make part-${number}` });
  const approve = (number) => item(number).getByRole('button', { name: 'Approve' });
  const answered = (number) => provost.settled(ids[number]);

  // A change of the inbox's topics, and what shows that the part has been replaced since.
  let changes = 0;
  const change = () => provost.task(`Another thing ${(changes += 1)}`);
  // The page knows of it: the count beside the inbox's name follows every change.
  const known = async () => {
    const count = page.waitForResponse((response) => response.url().endsWith('/waiting'));
    await change();
    await (await count).finished();
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 500)));
  };
  const mark = () => page.evaluate(() => { document.querySelector('#inbox > *').dataset.old = ''; });
  const isNew = () => page.evaluate(() => document.querySelector('#inbox [data-old]') === null);
  const asked = () => page.waitForResponse((response) => new URL(response.url()).pathname === '/inbox');
  const hold = async (number) => {
    await approve(number).scrollIntoViewIfNeeded();
    const { x, y, width, height } = await approve(number).boundingBox();
    await page.mouse.move(x + width / 2, y + height / 2);
    await page.mouse.down();
  };
  await until('the inbox is at rest', async () => {
    await mark();
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return !(await isNew());
  });

  // The press begins before the change is known.
  await mark();
  await hold(0);
  await known();
  await page.mouse.up();
  await answered(0);
  await until('the inbox follows', isNew);
  report('a press outlasts a change that comes meanwhile');

  // The press begins while the new list is under way.
  const waits = [];
  await page.route('**/inbox', async (route) => {
    await new Promise((resolve) => waits.push(resolve));
    await route.continue().catch(() => {});
  });
  const underWay = () => until('the list is asked for', () => waits.length > 0);
  const arrive = async () => {
    const answer = asked();
    for (const go of waits.splice(0)) go();
    await (await answer).finished();
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 100)));
  };
  await mark();
  await change();
  await underWay();
  await hold(1);
  await arrive();
  await page.mouse.up();
  await answered(1);
  report('a press outlasts a list that arrives meanwhile');

  // The same with the keyboard: Space presses when it is let go, and the focus outlives a new list.
  await underWay();
  await approve(2).focus();
  await page.keyboard.down('Space');
  await arrive();
  await page.keyboard.up('Space');
  await answered(2);
  report('so does the space bar');
  await page.unroute('**/inbox');
  for (const go of waits.splice(0)) go();
  await until('the answered one is gone', async () => (await item(2).filter({ hasText: 'Approve' }).count()) === 0);
  await approve(3).focus();
  await mark();
  await change();
  await until('the list is new', isNew);
  await page.keyboard.press('Enter');
  await answered(3);
  check(new URL(page.url()).pathname === '/', `Enter led to ${page.url()}`);
  report('and the focus stays on the button in a new list');

  // An act whose form has gone when its request fails says so.
  const last = await provost.settledAttempt(await provost.task('Say more'), 'fake', 'write a.txt a\nsay ready');
  const review = page.locator('.item', { hasText: 'Say more' });
  await review.waitFor();
  await page.route('**/do/*', async (route) => {
    await mark();
    await change();
    await until('the list is new', isNew);
    await route.abort();
  });
  isOffline = true;
  await review.getByRole('button', { name: 'Mark done' }).click();
  await page.locator('#said [role=alert]', { hasText: 'does not answer' }).waitFor();
  isOffline = false;
  await page.unroute('**/do/*');
  check((await provost.status(last)).phase === 'settled', 'it went on');
  await review.getByRole('button', { name: 'Mark done' }).click();
  await review.waitFor({ state: 'detached' });
  report('what failed after its form had gone is said, and the next press works');
  quiet(page);
}
