// A scratch home with a real daemon, its command line, and its API.

import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { until } from './wait.mjs';

const run = promisify(execFile);
const AGENT = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), '../../it/agents/stream_json.py');

export class Provost {
  constructor(program, folder) {
    this.program = program;
    this.folder = folder;
    this.home = path.join(folder, 'home');
    this.person = path.join(folder, 'person');
    fs.mkdirSync(this.home, { recursive: true });
    fs.mkdirSync(this.person);
    fs.writeFileSync(path.join(this.person, '.gitconfig'), '[user]\nname = Test\nemail = test@example.invalid\n');
    // An agent that asks for permission.
    fs.writeFileSync(path.join(this.home, 'config.toml'), `[executors.agent]\nprotocol = 'claude'\ncommand = ['python3', '${AGENT}']\n`);
  }

  get environment() {
    const { PATH } = process.env;
    return { PATH, LANG: 'C.UTF-8', HOME: this.person, GIT_CONFIG_NOSYSTEM: '1', PROVOST_HOME: this.home };
  }

  config(text) {
    fs.appendFileSync(path.join(this.home, 'config.toml'), `${text}\n`);
  }

  // ---- The daemon ----

  /// `answers`: by which call it is known that it does; a worker's page and tools refuse any.
  async start(answers = () => this.call('list_projects')) {
    const log = fs.openSync(path.join(this.folder, 'daemon.log'), 'a');
    const daemon = spawn(this.program, ['daemon'], { cwd: this.folder, env: this.environment, stdio: ['ignore', log, log] });
    fs.closeSync(log);
    this.ended = new Promise((resolve) => daemon.once('exit', resolve));
    await until('the daemon answers', async () => this.pid() === daemon.pid && answers());
  }

  pid() {
    return Number(fs.readFileSync(path.join(this.home, 'run/daemon.lock'), 'utf8').trim());
  }

  async kill() {
    process.kill(this.pid(), 'SIGKILL');
    await this.ended;
  }

  async end() {
    if (!this.ended) return;
    await this.verb('shutdown', '--stop-all').catch(() => {});
  }

  // ---- The command line ----

  async verb(...args) {
    const { stdout } = await run(this.program, args, { cwd: this.folder, env: this.environment, maxBuffer: 1 << 26 });
    return stdout;
  }

  async link() {
    return JSON.parse(await this.verb('open', '--print', '--json')).url;
  }

  // ---- The API ----

  get origin() {
    return `http://127.0.0.1:${fs.readFileSync(path.join(this.home, 'http-port'), 'utf8').trim()}`;
  }

  async call(tool, input = {}) {
    const token = fs.readFileSync(path.join(this.home, 'http-token'), 'utf8').trim();
    const answer = await fetch(`${this.origin}/api/v1/${tool}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(input),
    });
    const body = await answer.json();
    if (!answer.ok) throw new Error(`${tool}: ${JSON.stringify(body)}`);
    return body;
  }

  /// A project with one repository of one commit.
  async project(files = { 'README.md': 'a scratch repository\n' }, { name = 'scratch', folder = 'repo' } = {}) {
    const repo = path.join(this.folder, folder);
    fs.mkdirSync(repo);
    for (const [file, text] of Object.entries(files)) {
      fs.mkdirSync(path.dirname(path.join(repo, file)), { recursive: true });
      fs.writeFileSync(path.join(repo, file), text);
    }
    this.repo = repo;
    await this.git('init', '--quiet', '--initial-branch=main');
    await this.git('add', '--all');
    await this.git('commit', '--quiet', '--message=The beginning');
    this.project_id = (await this.call('create_project', { name, repos: [{ path: repo }] })).project_id;
    return this.project_id;
  }

  async git(...args) {
    return (await run('git', args, { cwd: this.repo, env: this.environment })).stdout;
  }

  async task(title, more = {}) {
    return (await this.call('create_task', { project_id: this.project_id, title, ...more })).task_id;
  }

  async attempt(task, executor, prompt) {
    return (await this.call('start_task_attempt', { task_id: task, executor, prompt })).attempt_id;
  }

  status(attempt) {
    return this.call('get_attempt_status', { attempt_id: attempt });
  }

  /// Waits until this turn, its last one, has ended and its snapshot is made.
  settled(attempt, turn = 1) {
    return until(`attempt ${attempt} settles after turn ${turn}`, async () => {
      const status = await this.status(attempt);
      return status.phase === 'settled' && status.latest_snapshot_turn === turn && status;
    });
  }

  /// Starts attempts and waits for them.
  async settledAttempt(task, executor, prompt) {
    const id = await this.attempt(task, executor, prompt);
    await this.settled(id);
    return id;
  }
}
