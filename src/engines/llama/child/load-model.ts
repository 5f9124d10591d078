import { createHash } from "node:crypto";
import { open, stat } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import { EngineError } from "../../../domain/engine/engine.js";
import type { ChildModel, LoadedFacts } from "../protocol/protocol.js";
import { ChatHost } from "./chat-host.js";
import { EmbeddingHost } from "./embedding-host.js";
import { samplingVersion } from "./generate.js";
import { type NativeModel, openNativeModel } from "./native.js";
import type { StepBatcher } from "./steps.js";

/** The host of a loaded model, by its kind. */
export interface Hosts {
  readonly chat?: ChatHost;
  readonly embedding?: EmbeddingHost;
}

export interface LoadedHosts {
  readonly hosts: Hosts;
  readonly facts: LoadedFacts;
}

export interface LoadDeps {
  readonly batcher: StepBatcher;
  /** Called with the loaded share, 0 to 1. */
  onProgress(share: number): void;
  /** Called with each error line of the native code, during the load and later, and with faults of the model. */
  onLog(line: string): void;
}

const loggedMax = 20;
/** Wait for log lines of the native code, which may arrive after the error that they explain. */
const logWaitMs = 200;
/** Smallest progress that is reported. */
const progressStep = 0.02;

/** Loads the model and creates its contexts. Throws EngineError `model_not_loaded` with the cause and a remedy. */
export async function loadModel(spec: ChildModel, { batcher, onProgress, onLog }: LoadDeps): Promise<LoadedHosts> {
  const logged: string[] = [];
  let reported = 0;
  try {
    await stat(spec.path);
    const model = await openNativeModel({
      model: spec,
      onProgress(share) {
        if (share - reported < progressStep) return;
        reported = share;
        onProgress(share);
      },
      onLog(line) {
        if (logged.length < loggedMax) logged.push(line);
        onLog(line);
      },
    });
    return await openHosts(model, spec, batcher, onLog);
  } catch (cause) {
    await setTimeout(logWaitMs);
    const message = `The model '${spec.id}' cannot be loaded: ${explain(spec, cause, logged)}`;
    throw new EngineError("model_not_loaded", message, { cause });
  }
}

async function openHosts(
  model: NativeModel,
  spec: ChildModel,
  batcher: StepBatcher,
  onLog: LoadDeps["onLog"],
): Promise<LoadedHosts> {
  const { bindingVersion, vocabulary, embeddingDims, placement } = model;
  // Each kind of graphics card rounds differently, so it is part of the fingerprint.
  const computes = placement.gpu === null ? bindingVersion : `${bindingVersion} ${placement.gpu}`;
  const fingerprint = await fingerprintOf(spec.path, computes);
  const facts = { vocabSize: vocabulary.size, fingerprint, bindingVersion, placement };
  if (spec.kind === "embedding") {
    const embedding = await EmbeddingHost.open(model, spec);
    const { contextLength, longestTokenBytes } = embedding;
    return {
      hosts: { embedding },
      facts: { ...facts, contextLength, longestTokenBytes, embeddingDims, tools: "none" },
    };
  }
  if (!model.generates) {
    throw new Error(`it is an encoder ('${model.architecture}') and computes embeddings, not text`);
  }
  const chat = await ChatHost.open(model, spec, batcher);
  const { contextLength, longestTokenBytes, template } = chat;
  if (model.chatTemplate !== null && template.isFallback) {
    onLog(`the chat template of the model '${spec.id}' fails to compile: its conversations are written as ChatML`);
  }
  const tools = template.toolFormat === null ? "forced-only" : "auto";
  return { hosts: { chat }, facts: { ...facts, contextLength, longestTokenBytes, embeddingDims: null, tools } };
}

const pullAgain = "Fetch it again with 'uis models pull'.";

/** The cause and the remedy of a failed load. `logged`: error lines of the native code. */
function explain(
  { path, build, contextLength, slots }: ChildModel,
  thrown: unknown,
  logged: readonly string[],
): string {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const log = logged.join("\n");
  // The binding's errors differ by class, not by name.
  switch ("code" in error ? error.code : error.constructor.name) {
    case "ENOENT":
      return `the file '${path}' does not exist. ${pullAgain}`;
    case "EACCES":
      return `the file '${path}' cannot be read. Give the service's user read access to it.`;
    case "ERR_MODULE_NOT_FOUND":
      return `node-llama-cpp is not installed in '${build.moduleDir ?? "the service's own folder"}'. Install it there.`;
    case "NoBinaryFoundError":
      return "the engine's build for this system is not installed. Run 'uis engine install cpu'.";
    case "InvalidGgufMagicError":
      return `the file '${path}' is not a GGUF file. ${pullAgain}`;
    case "InsufficientMemoryError":
      return (
        `there is too little memory for ${slots} slots of ${contextLength} tokens (${error.message}). ` +
        "Lower the model's 'slots' or 'context_length'."
      );
  }
  const architecture = /unknown model architecture: '([^']*)'/.exec(log)?.[1];
  if (architecture !== undefined) {
    return `this version of node-llama-cpp does not know its architecture '${architecture}'. Choose another model.`;
  }
  if (/not within the file bounds|corrupted|incomplete|failed to read|unexpectedly reached end/.test(log)) {
    return `the file '${path}' is damaged or truncated. ${pullAgain}`;
  }
  const first = logged[0] === undefined ? "" : ` (${logged[0]})`;
  return `${error.message}${first}. Choose another model, or fetch this one again with 'uis models pull'.`;
}

/** Length of the file's beginning that is hashed, which contains its header. */
const headBytes = 1_048_576;
/** Models of one architecture have equal headers, so samples of the weights are hashed as well. */
const samples = 32;
const sampleBytes = 4_096;

/** Twelve hex digits of a hash of all that determines the answers (RESP-11). `computes`: the binding's version and build. */
export async function fingerprintOf(path: string, computes: string): Promise<string> {
  const hash = createHash("sha256").update(`llama ${samplingVersion} ${computes} `);
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    hash.update(`${size} `);
    const read = async (bytes: number, position: number): Promise<void> => {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, position);
      hash.update(buffer.subarray(0, bytesRead));
    };
    await read(Math.min(headBytes, size), 0);
    for (let i = 1; i <= samples; i++) {
      await read(sampleBytes, Math.max(0, Math.floor((size * i) / samples) - sampleBytes));
    }
  } finally {
    await file.close();
  }
  return hash.digest("hex").slice(0, 12);
}
