import type { SettingValue } from "../config/environment.js";
import type { ConfigFile } from "../config/load-config.js";

/** Data that a worker gets from the first process before it starts. */
export interface WorkerStart {
  /** Number of the worker, 1 to `count`. */
  readonly number: number;
  readonly count: number;
  /** Whether it is the first worker of the whole start. */
  readonly isFirst: boolean;
  /** The configuration file at the start of the service. */
  readonly source: ConfigFile;
  /** The file at the last reload, which is applied before the worker is ready; null: there was none. */
  readonly reloaded: ConfigFile | null;
  /** Settings of `--upstream`. */
  readonly settings: readonly SettingValue[];
  readonly adminToken: string;
  /** Address of the listener for operators. */
  readonly ops: string;
}

/** Message of a worker that is ready. The first process prints that of the first worker when all are ready. */
export interface WorkerReady {
  /** The line that is printed with `--json`. */
  readonly line: object;
  /** The text that is printed without `--json`. */
  readonly text: string;
  readonly addresses: { readonly http: string; readonly grpc: string; readonly ops: string };
}

/** Why a worker cannot start. */
export interface WorkerRefusal {
  readonly message: string;
  readonly fix: string;
}

/** Names of messages and questions. */
export const toWorker = {
  /** Begins the stop. The body is the time for running requests in ms; null: the configured time. */
  stop: "stop",
  /** The body is the new configuration file. */
  reload: "reload",
  metrics: "metrics",
  debugState: "debug_state",
  readiness: "readiness",
  /** Question for status and figures; the answer is a WorkerStatus. */
  status: "status",
  /** Question for counts and durations of calls; the answer is FigureData. */
  figures: "figures",
} as const;

export const toPrimary = {
  /** Question for the start data; the answer is a WorkerStart. */
  start: "start",
  ports: "ports",
  ready: "ready",
  /** The first process prints the body, a text, on stdout. */
  print: "print",
  refused: "refused",
  /** Question for the status of all workers; the answer is a System message as JSON. */
  system: "system",
  /** Question for the recorded history of all workers; the answer is a History. */
  history: "history",
} as const;
