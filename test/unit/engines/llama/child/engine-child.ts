import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { GenEvent, TokenLogprobInfo } from "../../../../../src/domain/engine/engine.js";
import type {
  ChildError,
  ChildGenerate,
  ChildInput,
  ChildModel,
  FromChild,
  LoadedFacts,
  ToChild,
} from "../../../../../src/engines/llama/protocol/protocol.js";
import { processorBuild } from "../../../../support/llama/processor-build.js";

const main = fileURLToPath(new URL("../../../../../src/engines/llama/child/main.ts", import.meta.url));

/** Time limit for a process that starts on a busy machine, loads the native code and runs calls. */
export const startMs = 60_000;

/** Starts the process that runs a model as the server does. The test must stop it. */
export class EngineChild {
  readonly process: ChildProcess;
  readonly messages: FromChild[] = [];
  readonly #listeners = new Set<(message: FromChild) => void>();
  #calls = 0;
  stderr = "";
  stdout = "";

  private constructor() {
    this.process = fork(main, [], {
      execArgv: ["--import", import.meta.resolve("tsx")],
      serialization: "advanced",
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    this.process.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.stdout += text;
    });
    this.process.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
    });
    this.process.on("message", (message: FromChild) => {
      this.messages.push(message);
      for (const listener of this.#listeners) listener(message);
    });
  }

  /** The error of the last load. */
  get loadError(): ChildError {
    for (const message of this.messages.toReversed()) if (message.type === "load_failed") return message.error;
    throw new Error("the load did not fail");
  }

  /** Starts a process and loads a model. */
  static async load(model: Pick<ChildModel, "path" | "kind"> & Partial<ChildModel>): Promise<EngineChild> {
    const child = new EngineChild();
    await child.hear(({ type }) => type === "up");
    child.load(model);
    await child.hear(({ type }) => type === "loaded" || type === "load_failed");
    return child;
  }

  /** Loads a model; may be called again after a failed load. */
  load(model: Pick<ChildModel, "path" | "kind"> & Partial<ChildModel>): void {
    this.send({
      type: "load",
      model: { id: "test-model", contextLength: 2048, slots: 2, threads: 1, build: processorBuild, ...model },
    });
  }

  get facts(): LoadedFacts {
    for (const message of this.messages) if (message.type === "loaded") return message.facts;
    throw new Error(`the model was not loaded: ${JSON.stringify(this.messages.at(-1))}\n${this.stderr}`);
  }

  send(message: ToChild): void {
    this.process.send(message);
  }

  /** Resolves with the first received or future message that satisfies the condition. */
  hear(condition: (message: FromChild) => boolean): Promise<FromChild> {
    const heard = this.messages.find(condition);
    if (heard !== undefined) return Promise.resolve(heard);
    return new Promise((resolve, reject) => {
      const gone = (): void => reject(new Error(`the process ended: ${this.stderr}`));
      this.process.once("exit", gone);
      const listener = (message: FromChild): void => {
        if (!condition(message)) return;
        this.#listeners.delete(listener);
        this.process.off("exit", gone);
        resolve(message);
      };
      this.#listeners.add(listener);
    });
  }

  generate(changes: Partial<ChildGenerate> = {}): ChildRun {
    return this.#run((call) => ({ type: "generate", call, request: { ...request, ...changes } }));
  }

  embed(inputs: readonly (string | readonly number[])[]): ChildRun {
    return this.#run((call) => ({ type: "embed", call, request: { inputs } }));
  }

  async count(input: ChildInput, format?: ChildGenerate["format"]): Promise<number> {
    const end = await this.#run((call) => ({ type: "count", call, input, format })).end;
    if (end.type !== "counted") throw new Error(`not counted: ${JSON.stringify(end)}`);
    return end.tokens;
  }

  async slotsBusy(): Promise<number> {
    const ping = ++this.#calls;
    this.send({ type: "ping", ping });
    const pong = await this.hear((message) => message.type === "pong" && message.ping === ping);
    return pong.type === "pong" ? pong.slotsBusy : -1;
  }

  /** Closes the channel; resolves with the exit of the process. */
  async stop(): Promise<{ readonly code: number | null; readonly signal: string | null }> {
    const { process } = this;
    if (process.exitCode === null && process.signalCode === null) {
      const exited = once(process, "exit");
      if (process.connected) process.disconnect();
      await exited;
    }
    return { code: process.exitCode, signal: process.signalCode };
  }

  #run(message: (call: number) => ToChild): ChildRun {
    const call = ++this.#calls;
    const run = new ChildRun(this, call);
    this.send(message(call));
    return run;
  }
}

/** One call to a child. */
export class ChildRun {
  readonly end: Promise<FromChild>;
  readonly #child: EngineChild;
  readonly #call: number;

  constructor(child: EngineChild, call: number) {
    this.#child = child;
    this.#call = call;
    this.end = child.hear((message) => "call" in message && message.call === call);
  }

  get events(): readonly GenEvent[] {
    return this.#child.messages.flatMap((message) =>
      message.type === "events" ? message.events.filter(([call]) => call === this.#call).map(([, event]) => event) : [],
    );
  }

  abort(): void {
    this.#child.send({ type: "abort", call: this.#call });
  }

  /** Resolves at the first text event. */
  async begun(): Promise<void> {
    await this.#child.hear(
      (message) =>
        message.type === "events" && message.events.some(([call, { type }]) => call === this.#call && type === "text"),
    );
  }

  /** Resolves when the call is done. */
  async answer(): Promise<Answer> {
    const end = await this.end;
    if (end.type === "failed") throw new Error(`${end.error.code}: ${end.error.message}`);
    return answerOf(this.events);
  }

  async error(): Promise<ChildError> {
    const end = await this.end;
    if (end.type !== "failed") throw new Error(`the call did not fail, it said ${JSON.stringify(this.events)}`);
    return end.error;
  }
}

export interface Answer {
  readonly text: string;
  readonly reason: string | undefined;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly outTokens: number;
  readonly logprobs: readonly TokenLogprobInfo[];
  readonly events: readonly GenEvent[];
}

function answerOf(events: readonly GenEvent[]): Answer {
  const text = events.map((event) => (event.type === "text" ? event.text : "")).join("");
  const logprobs = events.flatMap((event) => (event.type === "text" ? (event.logprobs ?? []) : []));
  const finish = events.find((event) => event.type === "finish");
  const usage = events.at(-1);
  if (usage?.type !== "usage") throw new Error(`no usage: ${JSON.stringify(events)}`);
  const { promptTokens, cachedTokens, outTokens } = usage;
  return { text, logprobs, reason: finish?.reason, promptTokens, cachedTokens, outTokens, events };
}

const request: ChildGenerate = {
  requestId: "req_1",
  input: { type: "text", text: "Say" },
  maxTokens: null,
  stop: [],
  temperature: 0,
  topP: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  cacheKey: "default",
  deltas: "each",
};

export function chat(...contents: readonly string[]): Extract<ChildInput, { type: "chat" }> {
  return {
    type: "chat",
    messages: contents.map((content, i) => ({ role: i % 2 === 0 ? "user" : "assistant", content })),
    tools: [],
    toolChoice: { mode: "none" },
    parallelToolCalls: true,
    templateVariables: {},
  };
}

/** A path for a generated model of this test process. */
export function modelPath(name: string): string {
  return join(tmpdir(), `engine-child-${process.pid}-${name}.gguf`);
}
