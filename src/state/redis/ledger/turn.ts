/** What is to be sent at the end of this turn of the event loop: all of it together, from whichever batches it comes. */
export class TurnBatch {
  readonly #together: (send: () => void) => void;
  #sends: (() => void)[] = [];

  /** `together` calls what it is given at once; it makes one write of what is sent meanwhile. */
  constructor(together: (send: () => void) => void) {
    this.#together = together;
  }

  /** `send` must not throw. */
  atEnd(send: () => void): void {
    this.#sends.push(send);
    if (this.#sends.length === 1) setImmediate(() => this.#end());
  }

  #end(): void {
    const sends = this.#sends;
    this.#sends = [];
    this.#together(() => {
      for (const send of sends) send();
    });
  }
}
