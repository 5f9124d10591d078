import type { UsageTotal } from "../call/usage-tally.js";
import type { GenEvent } from "../engine/engine.js";

/** Turns engine events into the pieces of a streamed answer. `choice` counts over the whole request. */
export interface StreamAssembly<M> {
  /** The pieces that the event makes, in order; often one, sometimes none. */
  take(choice: number, event: GenEvent): readonly M[];
  /** The last piece: no choice, only usage. */
  last(usage: UsageTotal): M;
}

/** Collects engine events into a whole answer. */
export interface WholeAssembly<M> {
  take(choice: number, event: GenEvent): void;
  build(usage: UsageTotal): M;
}
