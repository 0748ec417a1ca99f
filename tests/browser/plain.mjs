// A browser without scripts: what the page offers works by forms alone.

import { open } from './lib/browser.mjs';

export default async function plain({ browser, provost, report, check }) {
  await provost.start();
  await provost.project();
  const page = await open(browser, provost, { javaScriptEnabled: false });
  await page.getByRole('link', { name: 'Board', exact: true }).click();
  await page.locator('summary', { hasText: 'New task' }).click();
  await page.locator('input[name=title]').fill('By a form');
  await page.getByRole('button', { name: 'Create task' }).click();
  await page.getByRole('link', { name: 'By a form' }).click();
  report('a task is made');
  await page.getByRole('link', { name: 'Show what can be done' }).click();
  await page.locator('select[name=executor]').selectOption('fake');
  await page.locator('textarea[name=prompt]').fill('write file.txt text\nsay It is written.');
  await page.getByRole('button', { name: 'Start attempt' }).click();
  const { tasks } = await provost.call('list_tasks', { project_id: provost.project_id });
  const { attempts } = await provost.call('list_task_attempts', { task_id: tasks[0].task_id });
  check(attempts.length === 1, 'one attempt is started');
  await provost.settled(attempts[0].attempt_id);
  await page.goto(provost.origin);
  await page.getByText('It is written.').waitFor();
  await page.getByRole('button', { name: 'Merge' }).click();
  await page.getByRole('button', { name: 'Mark done' }).click();
  await page.getByText('Nothing needs you.').waitFor();
  report('and started, merged and done');
}
