import * as z from "zod";
import { duration, text, wholeNumber } from "./setting-types.js";

/** `engine:`, the embedded engine's processes. */
export const engineSettings = z.strictObject({
  stall: duration(100, 600_000)
    .prefault("30s")
    .describe("How long an engine process may be silent before it is ended and started anew."),
  circuit_crashes: wholeNumber(1, 1_000_000)
    .prefault(5)
    .describe("Crashes within five minutes that are borne; one more, and the model pauses before it is tried again."),
  threads: wholeNumber(1, 1024)
    .nullable()
    .prefault(null)
    .describe("Threads per model. Null: one less than there are cores."),
  module_dir: text("the path of a folder")
    .nullable()
    .prefault(null)
    .describe("Folder with a node_modules that holds another build of node-llama-cpp, e.g. one for a GPU."),
});
