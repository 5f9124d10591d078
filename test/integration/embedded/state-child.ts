/**
 * A process that opens the state in the directory of its first argument and runs the commands of its parent: single verbs,
 * or endless inserts of keys or runs of requests. It reports each acknowledged operation to the parent.
 */
import { writeSync } from "node:fs";
import process from "node:process";
import { ServiceError } from "../../../src/domain/call/service-error.js";
import { StateOpenError } from "../../../src/domain/service/state.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { keyRecord } from "../../suites/api-key-records.js";
import { silentLog } from "../../support/silent-log.js";
import { numberedAdmission, numberedSettlement, usedThisMonth } from "./ledger-requests.js";

export type ToChild =
  | { readonly kind: "insert" | "find" | "admit" | "settle" | "used"; readonly number: number }
  /** Runs endlessly in 16 parallel lanes: `flood` inserts keys, `serve` admits and settles requests. */
  | { readonly kind: "flood" | "serve"; readonly from: number }
  /**
   * Runs `count` requests one after the other. For each it writes one line to standard output when it starts and one when
   * it is settled.
   */
  | { readonly kind: "tell"; readonly count: number };

export type FromChild =
  | { readonly kind: "opened" }
  | { readonly kind: "refused"; readonly message: string; readonly fix: string }
  | { readonly kind: "answer"; readonly number: number; readonly said: string }
  | { readonly kind: "told" };

const lanes = 16;
const say = (message: FromChild): void => void process.send?.(message);

async function saidBy(attempt: Promise<unknown>): Promise<string> {
  try {
    return (await attempt) === null ? "nothing" : "done";
  } catch (error) {
    return error instanceof ServiceError ? error.code : String(error);
  }
}

// A umask of 0, as on machines where new files are readable by all users.
process.umask(0);

try {
  const state = await openEmbeddedState({ dataDir: String(process.argv[2]), log: silentLog });
  const { keys, ledger } = state;
  const verbs = {
    insert: (number: number) => keys.insert(keyRecord(number)),
    find: (number: number) => keys.findByHash(keyRecord(number).hash),
    admit: async (number: number) => ledger.admit(numberedAdmission(number)),
    settle: async (number: number) => ledger.settle(numberedSettlement(number)),
    /** Resolves with true if exactly this number of requests is counted. */
    used: async (number: number) => ((await usedThisMonth(state)).requests === BigInt(number) ? true : null),
    serve: async (number: number) => {
      await ledger.admit(numberedAdmission(number));
      await ledger.settle(numberedSettlement(number));
    },
  };
  const answer = async (number: number, attempt: Promise<unknown>): Promise<void> =>
    say({ kind: "answer", number, said: await saidBy(attempt) });
  const repeat = async (verb: (number: number) => Promise<unknown>, from: number): Promise<never> => {
    for (let number = from; ; number += lanes) await answer(number, verb(number));
  };
  const tell = async (count: number): Promise<void> => {
    for (let number = 1; number <= count; number++) {
      writeSync(1, `asked ${number}\n`);
      await verbs.serve(number);
      writeSync(1, `settled ${number}\n`);
    }
    say({ kind: "told" });
  };

  process.on("message", (message: ToChild) => {
    if (message.kind === "tell") void tell(message.count);
    else if ("number" in message) void answer(message.number, verbs[message.kind](message.number));
    else {
      const verb = message.kind === "flood" ? verbs.insert : verbs.serve;
      for (let lane = 0; lane < lanes; lane++) void repeat(verb, message.from + lane);
    }
  });
  say({ kind: "opened" });
} catch (error) {
  if (!(error instanceof StateOpenError)) throw error;
  say({ kind: "refused", message: error.message, fix: error.fix });
}
