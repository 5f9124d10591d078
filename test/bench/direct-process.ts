import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { killAtExit } from "./cleanup.js";
import type { DirectReady } from "./direct-engine.js";
import type { RoundResult, StreamRound } from "./stream-round.js";

export interface DirectProcess extends DirectReady {
  run(round: StreamRound): Promise<RoundResult>;
  stop(): Promise<void>;
}

export interface DirectOptions {
  readonly file: string;
  readonly slots: number;
  readonly contextLength: number;
}

/** Starts the binding without the service, on one thread. */
export async function startDirect({ file, slots, contextLength }: DirectOptions): Promise<DirectProcess> {
  const program = fileURLToPath(new URL("./direct-engine.ts", import.meta.url));
  const child = fork(program, [file, String(slots), String(contextLength)], { execArgv: ["--import", "tsx"] });
  killAtExit(child);
  const ended = once(child, "exit").then(([code]) => Promise.reject(new Error(`the binding's process ended: ${code}`)));
  // The process also exits after a successful run.
  ended.catch(() => {});
  const answer = async <T>(): Promise<T> => {
    const [message] = await Promise.race([once(child, "message"), ended]);
    return message as T;
  };
  const ready = await answer<DirectReady>();
  return {
    ...ready,
    run(round) {
      const result = answer<RoundResult>();
      child.send(round);
      return result;
    },
    async stop() {
      const exited = once(child, "exit");
      child.disconnect();
      await exited;
    },
  };
}
