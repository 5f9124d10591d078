/** A message between the first process and a worker, as JSON. */
type Wire =
  | { readonly uis: "tell"; readonly name: string; readonly body: unknown }
  | { readonly uis: "ask"; readonly id: number; readonly name: string; readonly body: unknown }
  | { readonly uis: "part"; readonly id: number; readonly body: unknown }
  | { readonly uis: "end"; readonly id: number }
  | { readonly uis: "fail"; readonly id: number; readonly message: string };

/** A handler returns nothing, one answer, or the parts of an answer. */
export type Handlers = Readonly<Record<string, (body: never) => unknown>>;

/** Called when a handler fails and the sender does not wait for an answer. */
export type OnFailed = (cause: unknown, name: string) => void;

interface Pending {
  readonly parts: unknown[];
  readonly settle: (error: Error | null) => void;
}

/** Longest wait for an answer of the other process. */
export const answerMs = 2_000;

/**
 * Messages and questions over the IPC channel of two processes. An answer may have several parts, so that a large one is
 * written in slices.
 */
export class Channel {
  readonly #send: (message: Wire) => void;
  readonly #handlers: Handlers;
  readonly #onFailed: OnFailed;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;

  /** `send` may be called after the other process has ended, and then does nothing. */
  constructor(send: (message: object) => void, handlers: Handlers, onFailed: OnFailed) {
    this.#send = send;
    this.#handlers = handlers;
    this.#onFailed = onFailed;
  }

  /** Handles a message of the other process. Messages that no Channel sent are ignored. */
  receive(message: unknown): void {
    if (typeof message !== "object" || message === null || !("uis" in message)) return;
    const wire = message as Wire;
    if (wire.uis === "tell") {
      this.#handle(wire.name, wire.body).catch((cause: unknown) => this.#onFailed(cause, wire.name));
    } else if (wire.uis === "ask") void this.#answer(wire.id, wire.name, wire.body);
    else if (wire.uis === "part") this.#pending.get(wire.id)?.parts.push(wire.body);
    else this.#pending.get(wire.id)?.settle(wire.uis === "fail" ? new Error(wire.message) : null);
  }

  tell(name: string, body: unknown = null): void {
    this.#send({ uis: "tell", name, body });
  }

  /** Resolves with the parts of the answer. Rejects if the other handler fails or does not answer within `waitMs`. */
  ask(name: string, body: unknown = null, waitMs = answerMs): Promise<readonly unknown[]> {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      const parts: unknown[] = [];
      const late = setTimeout(() => settle(new Error(`no answer to "${name}" within ${waitMs} ms`)), waitMs);
      const settle = (error: Error | null): void => {
        clearTimeout(late);
        this.#pending.delete(id);
        if (error === null) resolve(parts);
        else reject(error);
      };
      this.#pending.set(id, { parts, settle });
      this.#send({ uis: "ask", id, name, body });
    });
  }

  /** Asks a question whose answer has one part, and resolves with it. */
  async askOne(name: string, body: unknown = null, waitMs = answerMs): Promise<unknown> {
    return (await this.ask(name, body, waitMs))[0];
  }

  /** Called when the other process has ended. Rejects every pending question. */
  close(): void {
    for (const { settle } of [...this.#pending.values()]) settle(new Error("the other process has ended"));
  }

  async #handle(name: string, body: unknown): Promise<unknown> {
    const handler = this.#handlers[name];
    if (handler === undefined) throw new Error(`unknown message "${name}"`);
    return await handler(body as never);
  }

  async #answer(id: number, name: string, body: unknown): Promise<void> {
    try {
      const answer = await this.#handle(name, body);
      if (isParts(answer)) for await (const part of answer) this.#send({ uis: "part", id, body: part });
      else this.#send({ uis: "part", id, body: answer ?? null });
      this.#send({ uis: "end", id });
    } catch (error) {
      this.#send({ uis: "fail", id, message: error instanceof Error ? error.message : String(error) });
    }
  }
}

function isParts(answer: unknown): answer is AsyncIterable<unknown> {
  return typeof answer === "object" && answer !== null && Symbol.asyncIterator in answer;
}
