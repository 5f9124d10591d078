/** Result of one check of the installation. */
export interface Finding {
  /** The check: `node`, `data_dir`, … */
  readonly check: string;
  readonly status: "ok" | "warn" | "fail";
  readonly detail: string;
  /** The remedy; null if all is well. */
  readonly fix: string | null;
}

/** Runs all checks, which takes seconds. Rejects only for errors in the checks themselves. */
export type Examine = () => Promise<readonly Finding[]>;

/** Runs the checks one at a time, because they start processes and call other servers. */
export class Doctor {
  readonly #examine: Examine;
  #running: Promise<readonly Finding[]> | null = null;

  constructor(examine: Examine) {
    this.#examine = examine;
  }

  /** Callers during a run share its result. */
  run(): Promise<readonly Finding[]> {
    this.#running ??= this.#examine().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }
}
