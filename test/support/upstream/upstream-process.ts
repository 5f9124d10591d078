import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** How an upstream process answers generations. */
export type Behaviour = "works" | "slow" | "500" | "429" | "401";

export interface UpstreamOrder {
  readonly behaviour: Behaviour;
}

const program = fileURLToPath(new URL("./upstream-process-child.ts", import.meta.url));

/** An upstream server in a process of its own: it can be killed, frozen, and started again at the same address. */
export class UpstreamProcess {
  #child: ChildProcess | null = null;
  #port = 0;

  static async start(): Promise<UpstreamProcess> {
    const upstream = new UpstreamProcess();
    await upstream.revive();
    return upstream;
  }

  /** Base URL of its API. */
  get url(): string {
    return `http://127.0.0.1:${this.#port}/v1`;
  }

  /** Starts the process; after a kill, on the same port. Resolves when it listens. */
  async revive(): Promise<void> {
    const child = fork(program, [String(this.#port)], { execArgv: ["--import", import.meta.resolve("tsx")] });
    this.#child = child;
    const [{ port }] = (await once(child, "message")) as [{ readonly port: number }];
    this.#port = port;
  }

  /** Changes how it answers. Resolves when the change has taken effect. */
  async behave(behaviour: Behaviour): Promise<void> {
    const child = this.#running;
    const changed = once(child, "message");
    child.send({ behaviour } satisfies UpstreamOrder);
    await changed;
  }

  /** Suspends it (SIGSTOP); its connections stay open, and new ones are still established by the system. */
  freeze(): void {
    this.#running.kill("SIGSTOP");
  }

  thaw(): void {
    this.#running.kill("SIGCONT");
  }

  /** Kills it (SIGKILL); resolves when the process has ended. */
  async kill(): Promise<void> {
    const child = this.#running;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
    this.#child = null;
  }

  async close(): Promise<void> {
    if (this.#child !== null) await this.kill();
  }

  get #running(): ChildProcess {
    if (this.#child === null) throw new Error("the upstream was killed");
    return this.#child;
  }
}
