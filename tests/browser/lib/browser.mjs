// Chromium with nothing of its own, and pages that tell what went wrong in them.

import { createRequire } from 'node:module';
import fs from 'node:fs';
import path from 'node:path';

const require = createRequire(path.join(process.env.BROWSER_TARGET, 'package.json'));
const { chromium } = require('playwright-core');
export const AXE = require.resolve('axe-core/axe.min.js');

const ARGS = [
  '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--disable-default-apps', '--disable-domain-reliability',
  '--no-pings', '--proxy-server=direct://',
];

/// Its profile and all else that it keeps are below the scratch folder.
export async function launch(scratch) {
  const home = path.join(scratch, 'chromium');
  fs.mkdirSync(home);
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ARGS,
    chromiumSandbox: false,
    env: { PATH: process.env.PATH, HOME: home, TMPDIR: home, XDG_CONFIG_HOME: home, XDG_CACHE_HOME: home, LANG: 'C.UTF-8' },
  });
}

/// A browser's window that is logged in by a link.
export async function open(browser, provost, { scripts = [], isOffline = () => false, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(30_000);
  // A click on what a refresh replaces just then is made again by Playwright.
  await context.addInitScript(() => {
    window.violations = [];
    document.addEventListener('securitypolicyviolation', (event) => {
      window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile ?? ''}:${event.lineNumber}`);
      console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  for (const script of scripts) await context.addInitScript({ path: script });
  if (process.env.ASSETS) await context.route('**/assets/*', (route) => fromDisk(route));
  const page = await context.newPage();
  page.wrongs = new Set();
  page.questions = [];
  watch(page, isOffline);
  await page.goto(await provost.link());
  // The link's page leads on.
  await page.waitForURL((url) => !url.pathname.startsWith('/login'));
  if (options.javaScriptEnabled !== false) await live(page);
  return page;
}

/// A sheet or script as it is in a checkout's folder of assets: to try a change without a build.
async function fromDisk(route) {
  const name = path.basename(new URL(route.request().url()).pathname).replace(/^[\w-]{12}-/, '');
  return route.fulfill({ path: path.join(process.env.ASSETS, name) });
}

/// What must not be: errors of scripts, refused scripts and styles, and dialogs that scripts of
/// others open. A question of the page's own is answered with yes.
function watch(page, isOffline) {
  page.on('pageerror', (error) => page.wrongs.add(`error: ${error.message}`));
  page.on('console', (message) => {
    const text = message.text();
    const isLost = /net::ERR_|Failed to load resource|^htmx:/.test(text) && isOffline();
    // What has no head of its own, as a picture, makes the browser ask for an icon.
    const isIcon = message.location().url.endsWith('/favicon.ico');
    if (message.type() === 'error' && !isLost && !isIcon) page.wrongs.add(`console: ${text} (${page.url()} ${message.location().url})`);
  });
  page.on('dialog', (dialog) => {
    if (dialog.type() === 'confirm') page.questions.push(dialog.message());
    else page.wrongs.add(`dialog: ${dialog.type()} ${dialog.message()}`);
    dialog.accept().catch(() => {});
  });
  page.on('response', (response) => {
    if (response.status() >= 500) page.wrongs.add(`${response.status()} ${response.url()}`);
  });
}

/// The page has its stream of events.
export function live(page) {
  return page.locator('#link[data-state=live]').waitFor({ state: 'attached' });
}

export async function go(page, address) {
  await page.goto(address);
  await live(page);
}
