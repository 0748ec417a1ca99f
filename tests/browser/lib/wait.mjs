// Waiting on conditions, and saying what did not come.

const TIMEOUT_MS = 60_000;
const POLL_MS = 40;

/// What `look` returns once it is neither undefined, null nor false. An error counts as not yet.
export async function until(what, look, timeout = TIMEOUT_MS) {
  const end = Date.now() + timeout;
  let last;
  for (;;) {
    try {
      const found = await look();
      if (found !== undefined && found !== null && found !== false) return found;
      last = undefined;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`it never came: ${what}${last ? ` (${last.message})` : ''}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
