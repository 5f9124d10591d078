import { create } from "@bufbuild/protobuf";
import {
  type CompletionLogprobs,
  CompletionLogprobsSchema,
  TokenAlternativesSchema,
} from "../../../gen/unified/inference/v1/completion_pb.js";
import { type Logprobs, LogprobsSchema } from "../../../gen/unified/inference/v1/logprobs_pb.js";
import type { Usage } from "../../../gen/unified/inference/v1/usage_pb.js";
import { rememberLast } from "../../lib/json-string.js";
import type { UsageTotal } from "../call/live-requests.js";
import type { GenEvent, LoadedModel, TokenLogprob, TokenLogprobInfo } from "../engine/engine.js";

/** Builds the chunks of a streamed answer from engine events. `choice` counts over the whole request. */
export interface StreamAssembly<M> {
  /** The chunks for an event, in order. */
  take(choice: number, event: GenEvent): readonly M[];
  /** The last chunk: usage without a choice. */
  last(usage: UsageTotal): M;
}

/** Builds a whole answer from engine events. */
export interface WholeAssembly<M> {
  take(choice: number, event: GenEvent): void;
  build(usage: UsageTotal): M;
}

const secondsOf = rememberLast((seconds: number) => BigInt(seconds));
const fingerprintOf = rememberLast((ofModel: string) => `fp_${ofModel}`);

/** Fields that all chunks of one answer share. */
export class AnswerIdentity {
  /** `chatcmpl-` or `cmpl-` and 24 random characters (RESP-15). */
  readonly id: string;
  /** Unix seconds (RESP-2). */
  readonly created: bigint;
  /** The model id as the client sent it (RESP-10). */
  readonly model: string;
  #fingerprint = "fp_";

  constructor(id: string, nowMs: number, model: string) {
    this.id = id;
    this.created = secondsOf(Math.floor(nowMs / 1000));
    this.model = model;
  }

  /** Sets the model that answers, before its first event. */
  answeredBy(model: LoadedModel): void {
    this.#fingerprint = fingerprintOf(model.fingerprint);
  }

  /** `fp_` and the engine's fingerprint (RESP-11). */
  get fingerprint(): string {
    return this.#fingerprint;
  }
}

/** Usage of a generated answer (RESP-8), built as a literal for speed. */
export function usageMessage(total: UsageTotal): Usage {
  return {
    $typeName: "unified.inference.v1.Usage",
    promptTokens: total.promptTokens,
    completionTokens: total.completionTokens,
    totalTokens: total.promptTokens + total.completionTokens,
    promptTokensDetails: {
      $typeName: "unified.inference.v1.PromptTokensDetails",
      cachedTokens: total.cachedTokens,
    },
    completionTokensDetails: {
      $typeName: "unified.inference.v1.CompletionTokensDetails",
      reasoningTokens: total.reasoningTokens,
    },
  };
}

const utf8 = new TextEncoder();

/** Log probabilities in chat's form (RESP-9). */
export function chatLogprobs(tokens: readonly TokenLogprobInfo[]): Logprobs {
  return create(LogprobsSchema, {
    content: tokens.map((info) => ({ ...entry(info), topLogprobs: info.top.map(entry) })),
  });
}

function entry({ token, logprob, bytes }: TokenLogprob): { token: string; logprob: number; utf8Bytes: Uint8Array } {
  return { token, logprob, utf8Bytes: bytes === undefined ? utf8.encode(token) : Uint8Array.from(bytes) };
}

/** Log probabilities of text completions (CMPL-7); `offset` is the position of the first token in characters. */
export function completionLogprobs(tokens: readonly TokenLogprobInfo[], offset: number): CompletionLogprobs {
  let position = offset;
  return create(CompletionLogprobsSchema, {
    tokens: tokens.map(({ token }) => token),
    tokenLogprobs: tokens.map(({ logprob }) => logprob),
    topLogprobs: tokens.map(({ token, logprob, top }) =>
      create(TokenAlternativesSchema, {
        logprobs: Object.fromEntries([...top.map((other) => [other.token, other.logprob]), [token, logprob]]),
      }),
    ),
    textOffset: tokens.map(({ token, bytes }) => {
      const start = position;
      position += bytes === undefined ? characters(token) : begunCharacters(bytes);
      return start;
    }),
  });
}

/** Number of characters that begin in these bytes: all bytes except UTF-8 continuation bytes. */
function begunCharacters(bytes: readonly number[]): number {
  return bytes.filter((byte) => byte < 0x80 || byte > 0xbf).length;
}

/** Length in code points. */
export function characters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}
