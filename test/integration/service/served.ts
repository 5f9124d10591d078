import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ReadyLine, type ServeProcess, type SpawnOptions, spawnServe } from "../../support/spawn-serve.js";

/** `uis serve` in processes of their own, on one folder that is gone afterwards. */
export class Served {
  readonly folder: string;
  readonly #started: ServeProcess[] = [];

  static async in(): Promise<Served> {
    return new Served(await mkdtemp(join(tmpdir(), "uis-served-")));
  }

  private constructor(folder: string) {
    this.folder = folder;
  }

  get dataDir(): string {
    return join(this.folder, "data");
  }

  /** Writes `config` as the configuration file and starts; `ready` or `exited` tells how that went. */
  async spawn(config: object, options: Partial<SpawnOptions> = {}): Promise<ServeProcess> {
    // JSON is YAML.
    await writeFile(join(this.folder, "uis.yaml"), JSON.stringify(config));
    const running = spawnServe({ cwd: this.folder, ...options });
    this.#started.push(running);
    return running;
  }

  async start(
    config: object,
    options: Partial<SpawnOptions> = {},
  ): Promise<ServeProcess & { readonly line: ReadyLine }> {
    const running = await this.spawn(config, options);
    return { ...running, line: await running.ready };
  }

  /** A start that must fail: its exit code, and the one line that says why and what to do. */
  async refused(config: object, options: Partial<SpawnOptions> = {}): Promise<{ code: number | string; line: string }> {
    const { exited, stderr } = await this.spawn(config, options);
    const code = await exited;
    return { code, line: stderr().trim().split("\n").at(-1) ?? "" };
  }

  async stopAll(): Promise<void> {
    for (const { child, exited } of this.#started.splice(0)) {
      child.kill("SIGKILL");
      await exited;
    }
  }

  async remove(): Promise<void> {
    await this.stopAll();
    await rm(this.folder, { recursive: true, force: true });
  }
}
