import { type DescMessage, type Message, toJson } from "@bufbuild/protobuf";
import { ChatCompletionParamsSchema } from "../../../gen/unified/inference/v1/chat_pb.js";
import { CompletionParamsSchema } from "../../../gen/unified/inference/v1/completion_pb.js";
import { EmbeddingParamsSchema } from "../../../gen/unified/inference/v1/embedding_pb.js";
import { RerankParamsSchema } from "../../../gen/unified/inference/v1/rerank_pb.js";
import type { AnswerReader, CallTranscript, RecordedContent } from "../call/observer.js";

/** Maximum number of characters that are kept of a request, and also of all its answers together. */
export const contentCharsMax = 32_768;
/** Maximum number of choices whose text is kept. */
const answersMax = 16;

const schemas: ReadonlyMap<string, DescMessage> = new Map(
  [ChatCompletionParamsSchema, CompletionParamsSchema, EmbeddingParamsSchema, RerankParamsSchema].map((schema) => [
    schema.typeName,
    schema,
  ]),
);

/** The fields of engine events that have text. */
interface TextEvent {
  readonly type: string;
  readonly text?: string;
  readonly name?: string;
  readonly argsDelta?: string;
}

/** Copies prompt and answer of one call, each up to `contentCharsMax` characters. */
export class ContentTranscript implements CallTranscript {
  readonly #redact: (text: string) => string;
  #request = "";
  #answers: string[] = [];
  #left = contentCharsMax;
  #isCut = false;

  /** `redact` replaces credentials in a text. */
  constructor(redact: (text: string) => string) {
    this.#redact = redact;
  }

  asked(request: Message): void {
    const schema = schemas.get(request.$typeName);
    if (schema === undefined) return;
    try {
      this.#request = this.#shortened(toJson(schema, request, { useProtoFieldName: true }));
    } catch {
      // The request is not validated yet: a number that is out of range cannot be written as JSON.
      this.#isCut = true;
    }
  }

  copying<R extends AnswerReader>(reader: R): R {
    const sink = (choice: number, event: TextEvent): Promise<void> | undefined => {
      this.#take(choice, event);
      return reader.sink(choice, event as never);
    };
    const { restart } = reader;
    const forget = (first: number, count: number): void => {
      for (let choice = first; choice < first + count; choice += 1) this.#forget(choice);
      restart?.(first, count);
    };
    return { ...reader, sink, restart: restart === null ? null : forget };
  }

  content(errorMessage: string): RecordedContent {
    return {
      request: this.#redact(this.#request),
      answers: Array.from(this.#answers, (text) => this.#redact(text ?? "")),
      errorMessage: this.#redact(errorMessage),
      isCut: this.#isCut,
    };
  }

  #take(choice: number, { type, text = "", name, argsDelta = "" }: TextEvent): void {
    const piece = type === "tool" ? `${name === undefined ? "" : `\n${name} `}${argsDelta}` : text;
    if (piece === "") return;
    const kept = choice < answersMax ? piece.slice(0, this.#left) : "";
    if (kept.length < piece.length) this.#isCut = true;
    if (kept === "") return;
    this.#left -= kept.length;
    this.#answers[choice] = (this.#answers[choice] ?? "") + kept;
  }

  #forget(choice: number): void {
    this.#left += this.#answers[choice]?.length ?? 0;
    if (choice < this.#answers.length) this.#answers[choice] = "";
  }

  /** Writes a value as JSON. Texts in it are cut once the bound is reached, so that the result is still valid JSON. */
  #shortened(value: unknown): string {
    let left = contentCharsMax;
    const shorten = (_key: string, inner: unknown): unknown => {
      if (left <= 0 && inner !== null && typeof inner === "object") {
        this.#isCut = true;
        return null;
      }
      if (typeof inner !== "string") {
        left -= 8;
        return inner;
      }
      const kept = inner.length > left ? `${inner.slice(0, Math.max(0, left))}…` : inner;
      if (kept !== inner) this.#isCut = true;
      left -= kept.length;
      return kept;
    };
    return JSON.stringify(value, shorten);
  }
}
