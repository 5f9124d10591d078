/** One prompt of a round, and the seed of its answer. */
export interface StreamTask {
  readonly prompt: readonly number[];
  readonly seed: number;
}

/** Streams that begin at the same time. Both sides use the same tokens, sampling and lengths. */
export interface StreamRound {
  readonly tasks: readonly StreamTask[];
  /** Tokens of each answer. */
  readonly tokens: number;
  /** Token ids that are never drawn. */
  readonly muted: readonly number[];
  /** Whether the binding evaluates prompts in pieces, as the service does. One piece is faster. */
  readonly cutsPrompts: boolean;
}

export interface RoundResult {
  /** Tokens of all answers. */
  readonly tokens: number;
  /** Duration from the start of the round to the end of its last answer. */
  readonly ms: number;
  /** Time from the start of the round to the first token, for each stream. */
  readonly firstMs: readonly number[];
  /** Processor time of all processes but the client's. */
  readonly cpuMs: number;
}

/** The service's sampling for a request that sets only this temperature. */
export const sampling = { temperature: 0.8, topK: 200, topP: 1, minP: 0 } as const;
export const mutedBias = -100;
