import type * as z from "zod";
import type { ServeProcess } from "../service-process.js";
import type { CliScene } from "./scene.js";

/** The arguments of a command, and its environment. */
export interface Use {
  readonly words: readonly string[];
  /** Default: that of the running service. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly stdin?: string;
}

export interface CommandRow {
  /** A use that succeeds, also when it is repeated. */
  readonly done: (scene: CliScene) => Use | Promise<Use>;
  /** The document of `--json`. */
  readonly answer: z.ZodType;
  /** The text on stdout without --json. */
  readonly text: RegExp;
  /** The text on stderr while the command runs; default: nothing. */
  readonly progress?: RegExp;
  /** An invalid use: exit code 2, with one line on stderr. */
  readonly wrong: Use & { readonly says: string };
  /** A use that fails with exit code 1. Null: only the call to the service can fail. */
  readonly failing: ((scene: CliScene) => Failure | Promise<Failure>) | null;
  /** Whether it calls a running service. */
  readonly asksService: boolean;
  /** For a command that runs until a signal, in a separate process: resolves when it has printed its answer. */
  readonly untilSignal?: (running: ServeProcess) => Promise<void>;
  /** Whether keys of the `--json` output are named by another format than ours. */
  readonly foreignKeys?: boolean;
}

export type Failure = Use & {
  readonly says: string;
  /** Where `says` is printed; default: as the only line of stderr. On stdout it is part of the answer. */
  readonly on?: "stdout";
};

export type CommandRows = Readonly<Record<string, CommandRow>>;
