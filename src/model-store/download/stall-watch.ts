import { SourceUnavailable } from "../model-errors.js";

/** Ends an exchange in which nothing has arrived for too long. */
export class StallWatch {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;

  /** The limit counts from now, and again from each `touch`. */
  constructor(host: string, limitMs: number) {
    this.#timer = setTimeout(() => {
      this.#controller.abort(
        new SourceUnavailable(
          `${host} has sent nothing for ${limitMs / 1_000} s: try again (it goes on from there), or use another source`,
        ),
      );
    }, limitMs);
  }

  /** Aborts with SourceUnavailable. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  touch(): void {
    this.#timer.refresh();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
