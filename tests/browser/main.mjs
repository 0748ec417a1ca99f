// Runs the parts, two at a time, each with a daemon of its own; the bench alone, after them.

import fs from 'node:fs';
import path from 'node:path';
import { launch } from './lib/browser.mjs';
import { Provost } from './lib/provost.mjs';

// `pictures` writes those of README: only when it is asked for.
const PARTS = ['pages', 'attacks', 'reviewer', 'presses', 'loop', 'plain', 'hosts', 'bench'];
const AT_ONCE = 2;

const { BROWSER_SCRATCH: scratch, BROWSER_TARGET: target } = process.env;
const [program, ...asked] = process.argv.slice(2);
const failed = path.join(target, 'failed');
fs.rmSync(failed, { recursive: true, force: true });

let passed = 0;
const wrongs = [];
const browser = await launch(scratch);

/// One part: what it proves is said step by step, and what stays on its pages must be nothing.
async function part(name) {
  const folder = path.join(scratch, name);
  fs.mkdirSync(folder);
  const provost = new Provost(program, folder);
  const begun = Date.now();
  const report = (text) => console.log(`${name.padEnd(8)} ${((Date.now() - begun) / 1000).toFixed(1).padStart(5)} s  ${text}`);
  const contexts = [];
  const own = { newContext: async (options) => contexts[contexts.push(await browser.newContext(options)) - 1] };
  try {
    const { default: work } = await import(`./${name}.mjs`);
    await work({ browser: own, provost, report, shots: path.join(target, 'shots'), check, quiet });
    passed += 1;
  } catch (error) {
    wrongs.push(name);
    console.error(`FAILED ${name}: ${error.stack}`);
    await evidence(name, provost, contexts);
  } finally {
    for (const context of contexts) await context.close();
    await provost.end();
  }
}

/// Nothing went wrong in a page besides what the part looked at.
function quiet(page) {
  check(page.wrongs.size === 0, [...page.wrongs].join('\n'));
}

function check(isTrue, what) {
  if (!isTrue) throw new Error(what);
}

/// What the pages and the daemon show of a failure.
async function evidence(name, provost, contexts) {
  fs.mkdirSync(failed, { recursive: true });
  const pages = contexts.flatMap((context) => context.pages());
  for (const [number, page] of pages.entries()) {
    const file = path.join(failed, `${name}-${number}.png`);
    await page.screenshot({ path: file }).catch(() => {});
    fs.writeFileSync(path.join(failed, `${name}-${number}.html`), await page.content().catch(() => ''));
    console.error(`  ${page.url()} is shown in ${file}; it said: ${[...(page.wrongs ?? [])].join('; ') || 'nothing'}`);
  }
  const log = path.join(provost.folder, 'daemon.log');
  if (fs.existsSync(log)) console.error(`  the daemon said:\n${fs.readFileSync(log, 'utf8').slice(-4000)}`);
}

const parts = asked.length > 0 ? asked : PARTS;
const left = parts.filter((name) => name !== 'bench');
await Promise.all(Array.from({ length: AT_ONCE }, async () => {
  while (left.length > 0) await part(left.shift());
}));
if (parts.includes('bench')) await part('bench');

await browser.close();
console.log(`${passed} passed, ${wrongs.length} failed`);
process.exit(wrongs.length > 0 ? 1 : 0);
