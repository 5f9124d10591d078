import { create } from "@bufbuild/protobuf";
import {
  type Message,
  MessageSchema,
  Role,
  type Tool,
  ToolSchema,
} from "../../../../gen/unified/inference/v1/chat_pb.js";
import type {
  EmitEvent,
  GenEvent,
  GenerateRequest,
  LoadedModel,
  ToolChoiceSpec,
} from "../../../../src/domain/engine/engine.js";
import { scriptedEngine } from "../../../../src/engines/scripted/scripted-model.js";
import type { ScriptedOptions } from "../../../../src/engines/scripted/scripted-options.js";
import { createSystemClock } from "../../../../src/lib/clock.js";
import { createRandomIds } from "../../../../src/lib/crypto.js";

export const neverAborted = new AbortController().signal;

/** A scripted model with 4 slots and a context of 4,096 tokens. */
export function load(options: ScriptedOptions, clock = createSystemClock()): Promise<LoadedModel> {
  const engine = scriptedEngine.create({ clock, ids: createRandomIds() });
  return engine.load({ id: "m", deployment: "d", contextLength: 4096, slots: 4, options }, () => {}, neverAborted);
}

/** A request with one user message. */
export function asks(text: string, changes: Partial<GenerateRequest> = {}): GenerateRequest {
  const content = [{ part: { case: "text" as const, value: text } }];
  const messages = [create(MessageSchema, { role: Role.USER, content })];
  return {
    requestId: "req_1",
    input: { messages, tools: [], toolChoice: { mode: "none" }, parallelToolCalls: true },
    n: 1,
    maxTokens: null,
    stop: [],
    temperature: 1,
    topP: 1,
    frequencyPenalty: 0,
    presencePenalty: 0,
    queueMs: 0,
    cacheKey: "default",
    deltas: "each",
    ...changes,
  };
}

interface Offer extends Partial<GenerateRequest> {
  readonly parallelToolCalls?: boolean;
  /** Default: one user message. */
  readonly messages?: readonly Message[];
}

/** A request that offers functions of these names. */
export function offers(names: readonly string[], toolChoice: ToolChoiceSpec, changes: Offer = {}): GenerateRequest {
  const { parallelToolCalls = true, messages, ...rest } = changes;
  const asked = asks("Hi");
  const tools: Tool[] = names.map((name) => create(ToolSchema, { function: { name } }));
  return {
    ...asked,
    input: {
      ...asked.input,
      ...(messages && { messages }),
      tools,
      toolChoice,
      parallelToolCalls,
    } as GenerateRequest["input"],
    ...rest,
  };
}

/** A reader that keeps all events. */
export function into(events: GenEvent[]): EmitEvent {
  return (event) => {
    events.push(event);
    return undefined;
  };
}

/** All events of a request. */
export async function run(
  model: LoadedModel,
  request: GenerateRequest,
  signal: AbortSignal = neverAborted,
): Promise<readonly GenEvent[]> {
  const events: GenEvent[] = [];
  await model.generate(request, signal, into(events));
  return events;
}

/** Text, calls, finish reason and usage of one choice. */
export function answerOf(events: readonly GenEvent[], choice = 0) {
  const calls: { id: string; name: string; args: string }[] = [];
  let text = "";
  let reason: string | null = null;
  for (const event of events) {
    if (event.type === "accepted" || event.type === "usage" || event.choice !== choice) continue;
    if (event.type === "text") text += event.text;
    if (event.type === "finish") reason = event.reason;
    if (event.type !== "tool") continue;
    if (event.id !== undefined) calls.push({ id: event.id, name: event.name ?? "", args: "" });
    const call = calls[event.index];
    if (call !== undefined) call.args += event.argsDelta ?? "";
  }
  const usage = events.at(-1);
  return { text, reason, calls, usage: usage?.type === "usage" ? [usage.promptTokens, usage.outTokens] : null };
}
