import type { Metadata } from "@grpc/grpc-js";
import { Ended, type EndReason } from "../../domain/call/call-context.js";
import type { OpenCall } from "./open-call.js";

/** The calls of our services between their metadata and their end. */
export class OpenCalls {
  readonly #live = new Set<OpenCall>();
  /** grpc-js hands the metadata object that was delivered to the handler as it is. */
  readonly #byMetadata = new WeakMap<Metadata, OpenCall>();

  add(call: OpenCall): void {
    this.#live.add(call);
  }

  remove(call: OpenCall): void {
    this.#live.delete(call);
  }

  bind(metadata: Metadata, call: OpenCall): void {
    this.#byMetadata.set(metadata, call);
  }

  of(metadata: Metadata): OpenCall {
    const call = this.#byMetadata.get(metadata);
    if (call === undefined) throw new Error("a call reached its handler unopened");
    return call;
  }

  /** Ends all calls; each client gets the status that belongs to the reason. */
  abortAll(why: EndReason): void {
    for (const call of [...this.#live]) call.abort.abort(new Ended(why));
  }
}
