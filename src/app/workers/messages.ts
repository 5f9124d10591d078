import type { SettingValue } from "../config/environment.js";
import type { ConfigFile } from "../config/load-config.js";

/** What a worker gets from the first process before it starts. */
export interface WorkerStart {
  /** 1 to `count`. */
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

/** What the first worker says when it is ready; the first process prints it when all are. */
export interface WorkerReady {
  /** The line of `--json`. */
  readonly line: object;
  /** The same as text. */
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
  /** Begins the stop; the body is the time for running requests, null: as configured. */
  stop: "stop",
  /** The body is the new configuration file. */
  reload: "reload",
  metrics: "metrics",
  debugState: "debug_state",
  readiness: "readiness",
  /** Status and figures, as WorkerStatus. */
  status: "status",
  /** Counts and durations of calls, as FigureData. */
  figures: "figures",
} as const;

export const toPrimary = {
  /** The answer is a WorkerStart. */
  start: "start",
  ports: "ports",
  ready: "ready",
  /** Text for stdout. */
  print: "print",
  refused: "refused",
  /** The answer is a System as JSON. */
  system: "system",
  /** The answer is a History. */
  history: "history",
} as const;
