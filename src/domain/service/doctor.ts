/** What a check of the installation has found. */
export interface Finding {
  /** What was looked at: `node`, `data_dir`, … */
  readonly check: string;
  readonly status: "ok" | "warn" | "fail";
  readonly detail: string;
  /** What to do about it; null when all is well. */
  readonly fix: string | null;
}

/** Looks at the machine and the settings; takes seconds. Rejects only for faults of the checks themselves. */
export type Examine = () => Promise<readonly Finding[]>;

/** Checks the installation for whoever asks: once at a time, for it starts processes and asks other servers. */
export class Doctor {
  readonly #examine: Examine;
  #running: Promise<readonly Finding[]> | null = null;

  constructor(examine: Examine) {
    this.#examine = examine;
  }

  /** Who asks while others wait gets their findings. */
  run(): Promise<readonly Finding[]> {
    this.#running ??= this.#examine().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }
}
