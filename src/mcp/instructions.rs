//! What a client's model reads of the server first: the loop of calls for each role. Some clients show
//! only the first line until a tool is searched for, so the first line has the loop and the words to
//! search by. Pure.

/// For those who run the board.
pub const BOARD: &str = "\
Provost runs coding agents in parallel on tasks, each in its own git worktree and branch; the loop: \
list_projects, create_task, list_executors, start_task_attempt, wait_for_attempts, \
tail_session_messages, get_attempt_changes, follow_up, stop_attempt, update_task.
1. list_projects gives a project_id (create_project if there is none); list_executors says which \
agents can work; list_tasks shows the board, create_task adds to it.
2. start_task_attempt (task_id, executor) starts an agent and returns at once with an attempt_id.
3. wait_for_attempts (attempt_ids, timeout_ms = 50000) wakes you when one has settled; then again \
with after from its answer. get_attempt_status has the details of one: failure_summary, next_action.
4. tail_session_messages (attempt_id) shows the final answers, tail_attempt_logs every step; for \
news, after_entry_index = latest_entry_index of that channel.
5. get_attempt_changes (attempt_id) lists what it changed; get_attempt_patch and get_attempt_file \
show it.
6. follow_up (attempt_id, action, prompt) continues with the same agent; stop_attempt (attempt_id) \
ends a run and every process it started.
7. update_task (task_id, status) when the work is accepted; finish_attempt (attempt_id, action) \
commits or merges it.
A task_id may be a handle such as TASK-001. Give request_id on every change: the same call with the \
same request_id never acts twice. A failure is JSON with error, code, retryable and hint; the hint \
names the call that helps.";

/// For a worker inside an attempt.
pub const INSIDE: &str = "\
You work on a task that Provost supervises; the loop: getNextTask, askQuestion, reportTaskStatus, \
reportTestFailure, reportIssue, createTicket, reportTaskDone.
Inside an attempt (get_context says which) you have a git worktree and branch of your own.
1. getNextTask returns the task with its brief; with claim = true no other agent gets it.
2. askQuestion answers from the project's plan, word for word; what the plan can't answer goes to \
a person, whose answer reaches you later. getImmediateAnswer waits for it.
3. reportTaskStatus reports progress; reportObservation, reportIssue and reportTestFailure report \
your findings; createTicket asks a person to take care of something.
4. reportTaskDone ends a task. The project's checks, if any, verify the report: do not report \
tests that you did not run. reportVerificationResult ends a verification task.
5. getNextTask again, until task is null.
Tasks are named TASK-001 or by UUID. A failure is JSON with success = false and error: code, \
message, retryable, retry_after_seconds and hint.";
