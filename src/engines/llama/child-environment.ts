/**
 * Variables that the child may see. Everything else stays with the server, its secrets above all: the child runs
 * native code on files and prompts of strangers. The last two are for GPU builds of the binding.
 */
const passedOn = ["PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"] as const;

/**
 * Tokens are chosen in Node's pool of threads, one job per call. More than one at a time must not run: llama.cpp puts the
 * results of a batch in order when they are first read, and does so without a lock, so that answers that are made
 * together would lose or double words.
 */
const own = { UV_THREADPOOL_SIZE: "1" };

/** The part of an environment that the child gets. */
export function childEnvironment(environment: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const name of passedOn) {
    const value = environment[name];
    if (value !== undefined) passed[name] = value;
  }
  return { ...passed, ...own };
}
