// How long the first pages take in a home of 1,000 attempts and 10,000 tasks. Figures, no verdict.

import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { go, open } from './lib/browser.mjs';

const TASKS = 10_000;
const ROUNDS = 15;

export default async function bench({ browser, provost, report }) {
  await provost.start();
  await provost.project();
  await provost.settledAttempt(await provost.task('The first one'), 'fake', 'write file.txt text\nsay ready');
  const file = path.join(provost.folder, 'tasks.json');
  const tasks = Array.from({ length: TASKS - 1 }, (_, number) => ({ title: `Task number ${number} of many` }));
  fs.writeFileSync(file, JSON.stringify(tasks));
  await provost.verb('task', 'import', '--project', 'scratch', file);
  await provost.verb('shutdown');
  await provost.ended;
  await promisify(execFile)('python3', [path.join(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), 'fill.py'), provost.home]);
  await provost.start();
  const page = await open(browser, provost);
  for (const [name, address] of [['inbox', '/'], ['board', '/board'], ['usage', '/usage']]) {
    const figures = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      await go(page, provost.origin + address);
      figures.push(await page.evaluate(() => new Promise((resolve) => {
        const navigation = performance.getEntriesByType('navigation')[0];
        const paint = () => performance.getEntriesByName('first-contentful-paint')[0];
        const tell = () => resolve({
          first: paint().startTime,
          answer: navigation.responseEnd - navigation.requestStart,
          bytes: navigation.decodedBodySize,
        });
        if (paint()) return tell();
        return new PerformanceObserver(tell).observe({ type: 'paint', buffered: true });
      })));
    }
    const middle = (key) => figures.map((it) => it[key]).sort((one, other) => one - other)[Math.floor(ROUNDS / 2)];
    report(`${name}: first paint ${middle('first').toFixed(0)} ms, of which the answer ${middle('answer').toFixed(0)} ms, ${Math.round(middle('bytes') / 1024)} KiB (medians of ${ROUNDS}; 1,000 attempts, ${TASKS.toLocaleString('en')} tasks)`);
  }
}
