import { execFile, execFileSync, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { type PinnedProcess, startPinnedProgram } from "./pinned-process.js";

const run = promisify(execFile);
const sources = join(import.meta.dirname, "native");
/** `-O2` for speed; the other options find mistakes in the programs. */
const compilerOptions = ["-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror"];

/** Counts of a load client, see native/load-client.c. A quantile is -1 if nothing was measured. */
export interface LoadFigures {
  readonly answers: number;
  /** Content chunks with a stamp. */
  readonly chunks: number;
  readonly bytes: number;
  readonly failures: number;
  readonly seconds: number;
  /** Processor time of the client. */
  readonly cpuMs: number;
  /** Maximum number of concurrent answers. */
  readonly openMax: number;
  readonly latencyUs: Quantiles;
  readonly firstChunkUs: Quantiles;
  readonly transitUs: Quantiles;
}

export interface Quantiles {
  readonly p50: number;
  readonly p99: number;
}

export interface Load {
  /** Name of the loaded program, for errors. */
  readonly side: string;
  readonly port: number;
  /** The whole HTTP request. */
  readonly request: Buffer;
  readonly connections: number;
  /** Time over which the connections are opened. */
  readonly rampSeconds: number;
  /** Time between the ramp and the first counted answer. */
  readonly warmUpSeconds: number;
  readonly seconds: number;
  /** Stamps of each streamed answer; 0: answers have none. */
  readonly stamps: number;
}

/**
 * The C programs with which a gateway is measured: the mock upstream and the load client. In JavaScript the two would need
 * more processor time than a gateway.
 */
export class NativePrograms {
  readonly #folder: string;
  readonly #core: number;
  #loads = 0;

  /** Compiles into `folder`; the programs run on `core`. Throws with a sentence if there is no compiler. */
  constructor(folder: string, core: number) {
    if (spawnSync("gcc", ["--version"]).status !== 0) {
      throw new Error("gcc is not installed: the mock upstream and the load client are C programs. Install gcc.");
    }
    this.#folder = folder;
    this.#core = core;
    for (const name of ["upstream", "load-client"]) {
      execFileSync("gcc", [...compilerOptions, "-o", join(folder, name), join(sources, `${name}.c`)]);
    }
  }

  /** Starts the mock upstream, which lists these models. Its first line has its `port`. */
  startUpstream(models: readonly string[]): Promise<PinnedProcess> {
    return startPinnedProgram(this.#core, [join(this.#folder, "upstream"), ...models], process.env);
  }

  /** Rejects if any answer failed. */
  async load({
    side,
    port,
    request,
    connections,
    rampSeconds,
    warmUpSeconds,
    seconds,
    stamps,
  }: Load): Promise<LoadFigures> {
    this.#loads += 1;
    const file = join(this.#folder, `request-${this.#loads}`);
    writeFileSync(file, request);
    const numbers = [port, connections, rampSeconds, warmUpSeconds, seconds, stamps].map(String);
    const command = [join(this.#folder, "load-client"), ...numbers, file];
    const { stdout, stderr } = await run("taskset", ["-c", String(this.#core), ...command]);
    const figures = JSON.parse(stdout) as LoadFigures;
    if (figures.failures > 0) throw new Error(`${side}: ${figures.failures} answers failed; ${stderr.trim()}`);
    if (figures.answers + figures.chunks === 0) throw new Error(`${side}: no answer in ${seconds} s`);
    return figures;
  }
}
