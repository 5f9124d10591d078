/**
 * Measures this build (`npm run build` first) on Linux with two cores or more.
 *
 *   npm run bench                the doors, with the scripted engine (run.ts)
 *   npm run bench -- engine      the embedded engine against its own binding (engine.ts)
 */
const isEngine = process.argv[2] === "engine";
if (isEngine) process.argv.splice(2, 1);
await import(isEngine ? "./engine.js" : "./run.js");
