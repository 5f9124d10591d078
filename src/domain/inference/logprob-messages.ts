import { create } from "@bufbuild/protobuf";
import {
  type CompletionLogprobs,
  CompletionLogprobsSchema,
  TokenAlternativesSchema,
} from "../../../gen/unified/inference/v1/completion_pb.js";
import { type Logprobs, LogprobsSchema } from "../../../gen/unified/inference/v1/logprobs_pb.js";
import type { TokenLogprob, TokenLogprobInfo } from "../engine/engine.js";

const utf8 = new TextEncoder();

/** Log probabilities in chat's form (RESP-9). */
export function chatLogprobs(tokens: readonly TokenLogprobInfo[]): Logprobs {
  return create(LogprobsSchema, {
    content: tokens.map((info) => ({ ...entry(info), topLogprobs: info.top.map(entry) })),
  });
}

function entry({ token, logprob, bytes }: TokenLogprob): { token: string; logprob: number; tokenBytes: Uint8Array } {
  return { token, logprob, tokenBytes: bytes === undefined ? utf8.encode(token) : Uint8Array.from(bytes) };
}

/** Log probabilities in the form of text completions (CMPL-7); `offset` is where the first token begins, in characters. */
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

/** Characters that begin in these bytes: all but those that go on in one count. */
function begunCharacters(bytes: readonly number[]): number {
  return bytes.filter((byte) => byte < 0x80 || byte > 0xbf).length;
}

/** Length in characters as a reader counts them: code points, not UTF-16 units. */
export function characters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}
