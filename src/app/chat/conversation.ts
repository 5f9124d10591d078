import type { MessageInitShape } from "@bufbuild/protobuf";
import { type ChatCompletionParamsSchema, Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import { restFields, rpcFields, type Sampling } from "./sampling.js";

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

const roles = { system: Role.SYSTEM, user: Role.USER, assistant: Role.ASSISTANT } as const;

/** A conversation with a model: its messages so far, its system message and its sampling settings. */
export class Conversation {
  readonly model: string;
  /** The system message; null if there is none. */
  system: string | null;
  sampling: Sampling;
  #turns: readonly ChatMessage[] = [];

  constructor(model: string, system: string | null, sampling: Sampling) {
    this.model = model;
    this.system = system;
    this.sampling = sampling;
  }

  get isEmpty(): boolean {
    return this.#turns.length === 0;
  }

  /** Adds a question with its answer; of a stopped answer, the part that was received. */
  add(question: string, answer: string): void {
    this.#turns = [...this.#turns, { role: "user", content: question }, { role: "assistant", content: answer }];
  }

  /** Removes the messages; the system message and the settings stay. */
  clear(): void {
    this.#turns = [];
  }

  /** Parameters of a request for the next answer. */
  params(question: string): MessageInitShape<typeof ChatCompletionParamsSchema> {
    const messages = [...this.#messages(), { role: "user", content: question } as const].map(({ role, content }) => ({
      role: roles[role],
      content: [{ part: { case: "text" as const, value: content } }],
    }));
    return { model: this.model, messages, ...rpcFields(this.sampling) };
  }

  /** The body of a REST request: with `question`, or with the messages so far. */
  body(question?: string): object {
    const next: readonly ChatMessage[] = question === undefined ? [] : [{ role: "user", content: question }];
    return { model: this.model, ...restFields(this.sampling), messages: [...this.#messages(), ...next] };
  }

  #messages(): readonly ChatMessage[] {
    const system: readonly ChatMessage[] = this.system === null ? [] : [{ role: "system", content: this.system }];
    return [...system, ...this.#turns];
  }
}
