import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { MessageSchema, Role, ToolSchema } from "../../../gen/unified/inference/v1/chat_pb.js";
import {
  type Engine,
  EngineError,
  type GenEvent,
  type GenerateRequest,
  type LoadedModel,
  type ToolChoiceSpec,
} from "../../../src/domain/engine/engine.js";
import type { UpstreamDefinition, UpstreamModel } from "../../../src/domain/engine/upstream.js";
import { type OpenAiEngineDeps, openAiEngine } from "../../../src/engines/openai/openai-engine.js";
import type { AbortFlag } from "../../../src/lib/abort-source.js";
import { createSystemClock } from "../../../src/lib/clock.js";
import { createRandomIds } from "../../../src/lib/crypto.js";
import { Secret } from "../../../src/lib/secret.js";
import { silentLog } from "../silent-log.js";

export const never: AbortFlag = new AbortController().signal;

/** Changes of a definition; keys and headers as plain texts. */
export type UpstreamChanges = Partial<Omit<UpstreamDefinition, "keys" | "headers" | "tls">> & {
  readonly keys?: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
  readonly tls?: { readonly ca?: string | null; readonly cert?: string | null; readonly key?: string | null };
};

export function upstreamSettings(url: string, changes: UpstreamChanges = {}): UpstreamDefinition {
  const { keys = [], headers = {}, tls = {}, ...others } = changes;
  const { ca = null, cert = null, key = null } = tls;
  return {
    name: "up",
    url,
    kind: "generic",
    apiVersion: null,
    keys: keys.map((text) => new Secret(text)),
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name.toLowerCase(), new Secret(value)]),
    ),
    discoverMs: null,
    native: [],
    connectMs: 5_000,
    firstByteMs: 10_000,
    idleMs: 10_000,
    totalMs: 60_000,
    tls: { ca, cert, key: key === null ? null : new Secret(key), serverName: null },
    ...others,
  };
}

/** Creates the engine for upstream servers; the models that it loads share it. */
export function upstreamEngine(deps: Partial<OpenAiEngineDeps> = {}): Engine {
  const clock = createSystemClock();
  return openAiEngine.create({ clock, backgroundClock: clock, ids: createRandomIds(), log: silentLog, ...deps });
}

/** A model on an upstream server. */
export async function loadUpstreamModel(
  upstream: UpstreamDefinition,
  changes: Partial<UpstreamModel> & { readonly slots?: number } = {},
  deps: Partial<OpenAiEngineDeps> = {},
  engine = upstreamEngine(deps),
): Promise<LoadedModel> {
  const { slots = 8, ...deployment } = changes;
  const options: UpstreamModel = {
    upstream,
    model: "smollm2",
    passThrough: [],
    contextLength: null,
    capabilities: null,
    ...deployment,
  };
  const spec = { id: "m", deployment: `${upstream.name}/${options.model}`, contextLength: 4_096, slots, options };
  return await engine.load(spec, () => {}, new AbortController().signal);
}

type MessageInit = MessageInitShape<typeof MessageSchema>;

export function userMessage(text: string): MessageInit {
  return { role: Role.USER, content: [{ part: { case: "text", value: text } }] };
}

export const weatherTool = create(ToolSchema, {
  function: { name: "get_weather", parametersJson: '{"type":"object","properties":{"city":{"type":"string"}}}' },
});

/** A chat request; `forced` and `auto` offer the weather tool. */
export function chatRequest(
  changes: Partial<GenerateRequest> & {
    readonly tool?: ToolChoiceSpec;
    readonly messages?: readonly MessageInit[];
  } = {},
): GenerateRequest {
  const { tool, messages = [userMessage("Say hello in five words.")], ...others } = changes;
  return {
    requestId: "req_1",
    input: {
      messages: messages.map((message) => create(MessageSchema, message)),
      tools: tool === undefined ? [] : [weatherTool],
      toolChoice: tool ?? { mode: "none" },
      parallelToolCalls: true,
    },
    n: 1,
    maxTokens: null,
    stop: [],
    queueMs: 0,
    cacheKey: "default",
    deltas: "each",
    ...others,
  };
}

export function completionRequest(changes: Partial<GenerateRequest> = {}): GenerateRequest {
  return { ...chatRequest(), input: { prompt: "The capital of France is" }, ...changes };
}

/** The events of a run, and its error; null: it succeeded. */
export async function runEvents(
  model: LoadedModel,
  request: GenerateRequest,
  signal: AbortFlag = never,
): Promise<{ readonly events: readonly GenEvent[]; readonly error: EngineError | null }> {
  const events: GenEvent[] = [];
  try {
    await model.generate(request, signal, (event) => {
      events.push(event);
      return undefined;
    });
    return { events, error: null };
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    return { events, error };
  }
}

export function textOf(events: readonly GenEvent[], choice = 0): string {
  return events.map((event) => (event.type === "text" && event.choice === choice ? event.text : "")).join("");
}
