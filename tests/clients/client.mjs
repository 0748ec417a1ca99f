// Drives the server by calls.json with the official TypeScript client: the
// package of major version 1, or that of 2 in one of the protocol's two eras.
// The client itself validates structured results.
//
// usage: client.mjs PACKAGE MODE PROVOST CALLS REPO OTHER_REPO

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const TIMEOUT_MS = 60_000;

const [packageName, mode, program, calls, repo, otherRepo] = process.argv.slice(2);
const names = { REPO: repo, OTHER_REPO: otherRepo };

// Resolved from where it is installed, which is not where this file is.
const require = createRequire(`${process.cwd()}/package.json`);
const isFirst = packageName.endsWith("/sdk");
const { Client } = require(isFirst ? `${packageName}/client/index.js` : packageName);
const { StdioClientTransport } = require(
  isFirst ? `${packageName}/client/stdio.js` : `${packageName}/stdio`,
);

/** The value with every "$NAME" in it replaced. */
function filled(value) {
  if (typeof value === "string") return value.startsWith("$") ? names[value.slice(1)] : value;
  if (Array.isArray(value)) return value.map(filled);
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, filled(item)]));
  }
  return value;
}

/** The result of a call, asked for until it holds what is waited for. */
async function settled(client, call, request) {
  const awaited = Object.entries(call.until ?? {});
  for (const deadline = Date.now() + TIMEOUT_MS; ; await sleep(50)) {
    const result = await client.callTool(request);
    if (awaited.every(([key, value]) => result.structuredContent[key] === value)) return result;
    assert(Date.now() < deadline, "it does not settle");
  }
}

async function perform(client, call) {
  const request = { name: call.tool, arguments: filled(call.arguments) };
  if (call.protocol_error) {
    await assert.rejects(client.callTool(request), /no tool/);
    return;
  }
  const result = await settled(client, call, request);
  const output = result.structuredContent;
  assert.deepEqual(result.content.map((content) => content.type), ["text"]);
  assert.deepEqual(JSON.parse(result.content[0].text), output);
  assert.equal(result.isError ?? false, "error" in call, result.content[0].text);
  if (call.error) {
    assert.equal(output.code, call.error);
    assert(output.error === output.message && output.hint, result.content[0].text);
  }
  for (const [key, value] of Object.entries(filled(call.expect ?? {}))) {
    assert.deepEqual(output[key], value, key);
  }
  for (const [path, name] of Object.entries(call.keep ?? {})) {
    names[name] = path.split(".").reduce((value, part) => value[part], output);
  }
}

/** Plays a scene; adds the tools that it was shown, and those that it called rightly. */
async function play(scene, listed, right) {
  const env = { PATH: process.env.PATH, PROVOST_HOME: process.env.PROVOST_HOME };
  if (scene.inside) env.PROVOST_ATTEMPT_ID = filled(scene.inside);
  const transport = new StdioClientTransport({ command: program, args: scene.server, env });
  const client = new Client(
    { name: "provost-tests", version: "1" },
    mode === "default" ? {} : { versionNegotiation: { mode } },
  );
  await client.connect(transport);
  try {
    for (const tool of (await client.listTools()).tools) listed.add(tool.name);
    for (const [number, call] of scene.calls.entries()) {
      await perform(client, call).catch((cause) => {
        const what = `${scene.title}, call ${number}: ${JSON.stringify(call)}`;
        throw new Error(what, { cause });
      });
      if (!call.error) right.add(call.tool);
    }
    console.log(`ok: mode ${mode}, ${scene.calls.length} calls: ${scene.title}`);
  } finally {
    await client.close();
  }
}

const [listed, right] = [new Set(), new Set()];
for (const scene of JSON.parse(readFileSync(calls, "utf8"))) await play(scene, listed, right);
const uncalled = [...listed].filter((name) => !right.has(name));
assert(uncalled.length === 0, `never called: ${uncalled}`);
