import { EngineError } from "../../../domain/engine/engine.js";
import type { ChildEmbed, ChildError, ChildGenerate, ChildModel, FromChild, ToChild } from "../protocol/protocol.js";
import { EventBatch, EventJoiner } from "./event-batch.js";
import { type LoadedHost, loadModel } from "./load-model.js";
import { SlotLost } from "./slots.js";
import { StepBatcher } from "./step-batcher.js";

export interface HostDeps {
  send(message: FromChild): void;
  onLog(line: string): void;
  /** The process cannot go on. */
  onFatal(error: Error): void;
}

/** Runs one model for the server: takes its messages and answers each call with events and one end. */
export class Host {
  readonly #deps: HostDeps;
  readonly #turns = new StepBatcher();
  readonly #events: EventBatch;
  readonly #aborts = new Map<number, AbortController>();
  #loaded: LoadedHost | null = null;

  constructor(deps: HostDeps) {
    this.#deps = deps;
    this.#events = new EventBatch(deps.send, (callback) => this.#turns.atEnd(callback));
  }

  receive(message: ToChild): void {
    switch (message.type) {
      case "load":
        void this.#load(message.model);
        return;
      case "generate":
        void this.#run(message.call, (signal) => this.#generate(message.call, message.request, signal));
        return;
      case "embed":
        void this.#run(message.call, (signal) => this.#embed(message.call, message.request, signal));
        return;
      case "count":
        void this.#run(message.call, (signal) => this.#count(message, signal));
        return;
      case "abort":
        this.#aborts.get(message.call)?.abort();
        return;
      case "ping":
        this.#deps.send({
          type: "pong",
          ping: message.ping,
          slotsBusy: this.#loaded?.host.slotsBusy ?? 0,
        });
    }
  }

  async #load(model: ChildModel): Promise<void> {
    const { send, onLog } = this.#deps;
    try {
      this.#loaded = await loadModel(model, {
        turns: this.#turns,
        onProgress: (share) => send({ type: "loading", share }),
        onLog,
      });
      send({ type: "loaded", facts: this.#loaded.facts });
    } catch (error) {
      send({ type: "load_failed", error: toChildError(error) });
    }
  }

  /** Every call ends with one message: the one that it returns, or `failed`. */
  async #run(call: number, answer: (signal: AbortSignal) => Promise<FromChild>): Promise<void> {
    const abort = new AbortController();
    this.#aborts.set(call, abort);
    const end = await answer(abort.signal).catch((error: unknown): FromChild => {
      if (error instanceof SlotLost) this.#deps.onFatal(error);
      return { type: "failed", call, error: toChildError(error) };
    });
    this.#aborts.delete(call);
    this.#events.flush();
    this.#deps.send(end);
  }

  async #generate(call: number, request: ChildGenerate, signal: AbortSignal): Promise<FromChild> {
    const { host } = this.#loadedAs("chat");
    const joiner = new EventJoiner((event) => this.#events.add(call, event));
    await host.generate(
      request,
      (event) => (request.deltas === "joined" ? joiner.push(event) : this.#events.add(call, event)),
      signal,
    );
    return { type: "done", call };
  }

  async #embed(call: number, request: ChildEmbed, signal: AbortSignal): Promise<FromChild> {
    const { host } = this.#loadedAs("embedding");
    return { type: "embedded", call, ...(await host.embed(request, signal)) };
  }

  async #count(message: Extract<ToChild, { type: "count" }>, signal: AbortSignal): Promise<FromChild> {
    const { call, input, format } = message;
    return { type: "counted", call, tokens: await this.#loadedAs("chat").host.count(input, format, signal) };
  }

  #loadedAs<K extends LoadedHost["kind"]>(kind: K): Extract<LoadedHost, { kind: K }> {
    const loaded = this.#loaded;
    if (loaded === null) {
      throw new EngineError("model_not_loaded", "the engine's process has no model yet", { retryable: true });
    }
    if (!isKind(loaded, kind)) {
      const can = loaded.kind === "chat" ? "generates text" : "makes embeddings";
      throw new EngineError("unsupported", `This model ${can} and nothing else.`);
    }
    return loaded;
  }
}

function isKind<K extends LoadedHost["kind"]>(loaded: LoadedHost, kind: K): loaded is Extract<LoadedHost, { kind: K }> {
  return loaded.kind === kind;
}

/** What is thrown in the child, as it goes through the channel. Causes stay here, so a failure's is put into words. */
export function toChildError(thrown: unknown): ChildError {
  if (!(thrown instanceof EngineError)) {
    return { code: "internal", message: wordsOf(thrown), retryable: true, param: null, usage: null };
  }
  const { code, retryable, param, usage } = thrown;
  const isPrivate = code === "internal" && thrown.cause !== undefined;
  const message = isPrivate ? `${thrown.message}: ${wordsOf(thrown.cause)}` : thrown.message;
  return { code, message, retryable, param, usage };
}

function wordsOf(thrown: unknown): string {
  return thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
}
