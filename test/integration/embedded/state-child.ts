/**
 * A process that opens the state in the directory of its first argument and does what its parent tells it: inserts one
 * key, or inserts without end, telling each key that was acknowledged.
 */
import process from "node:process";
import { ServiceError } from "../../../src/domain/service-error.js";
import { StateOpenError } from "../../../src/domain/state.js";
import { openEmbeddedState } from "../../../src/state/embedded/embedded-state.js";
import { keyRecord } from "../../suites/api-key-records.js";

export type ToChild =
  | { readonly kind: "insert"; readonly number: number }
  | { readonly kind: "find"; readonly number: number }
  | { readonly kind: "flood"; readonly from: number };

export type FromChild =
  | { readonly kind: "opened" }
  | { readonly kind: "refused"; readonly message: string; readonly fix: string }
  | { readonly kind: "answer"; readonly number: number; readonly said: string };

const say = (message: FromChild): void => void process.send?.(message);

async function saidBy(attempt: Promise<unknown>): Promise<string> {
  try {
    return (await attempt) === null ? "nothing" : "done";
  } catch (error) {
    return error instanceof ServiceError ? error.code : String(error);
  }
}

// As on machines where new files are open to everybody.
process.umask(0);

try {
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const { keys } = await openEmbeddedState({ dataDir: String(process.argv[2]), log });
  const answer = async (number: number, attempt: Promise<unknown>): Promise<void> =>
    say({ kind: "answer", number, said: await saidBy(attempt) });

  const flood = async (from: number, step: number): Promise<never> => {
    for (let number = from; ; number += step) await answer(number, keys.insert(keyRecord(number)));
  };

  process.on("message", (message: ToChild) => {
    if (message.kind === "insert") void answer(message.number, keys.insert(keyRecord(message.number)));
    if (message.kind === "find") void answer(message.number, keys.findByHash(keyRecord(message.number).hash));
    if (message.kind === "flood") for (let lane = 0; lane < 16; lane++) void flood(message.from + lane, 16);
  });
  say({ kind: "opened" });
} catch (error) {
  if (!(error instanceof StateOpenError)) throw error;
  say({ kind: "refused", message: error.message, fix: error.fix });
}
