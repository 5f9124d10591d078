import { createHash } from "node:crypto";
import { open, stat } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import { EngineError } from "../../../domain/engine/engine.js";
import type { ChildModel, LoadedFacts } from "../protocol/protocol.js";
import { ChatHost } from "./chat-host.js";
import { EmbeddingHost } from "./embedding-host.js";
import { openNativeModel } from "./native.js";
import type { NativeModel } from "./native-model.js";
import { samplingVersion } from "./sampling.js";
import type { StepBatcher } from "./step-batcher.js";

export type LoadedHost =
  | { readonly kind: "chat"; readonly host: ChatHost; readonly facts: LoadedFacts }
  | { readonly kind: "embedding"; readonly host: EmbeddingHost; readonly facts: LoadedFacts };

export interface LoadDeps {
  readonly turns: StepBatcher;
  /** Share of the load, 0 to 1. */
  onProgress(share: number): void;
  /** What the native code complains about, then and later, and what is wrong with the model. */
  onLog(line: string): void;
}

const complaintsMax = 20;
/** What the native code complains about takes another way than its error, and may come after it. */
const complaintsWaitMs = 200;
/** Progress that is worth a message. */
const progressStep = 0.02;

/** Loads the model and makes its contexts. Throws EngineError `model_not_loaded` with the cause and what to do. */
export async function loadModel(spec: ChildModel, { turns, onProgress, onLog }: LoadDeps): Promise<LoadedHost> {
  const complaints: string[] = [];
  let told = 0;
  try {
    await stat(spec.path);
    const model = await openNativeModel({
      path: spec.path,
      moduleDir: spec.moduleDir,
      gpu: spec.gpu,
      threads: spec.threads,
      onProgress(share) {
        if (share - told < progressStep) return;
        told = share;
        onProgress(share);
      },
      onLog(line) {
        if (complaints.length < complaintsMax) complaints.push(line);
        onLog(line);
      },
    });
    return await openHost(model, spec, { turns, onLog });
  } catch (error) {
    await setTimeout(complaintsWaitMs);
    throw loadFailure(spec, error, complaints);
  }
}

async function openHost(
  model: NativeModel,
  spec: ChildModel,
  { turns, onLog }: Pick<LoadDeps, "turns" | "onLog">,
): Promise<LoadedHost> {
  const facts = {
    vocabSize: model.vocabulary.size,
    fingerprint: await fingerprintOf(spec.path, model.bindingVersion),
    bindingVersion: model.bindingVersion,
  };
  if (spec.kind === "embedding") {
    const host = await EmbeddingHost.open(model, spec);
    const { contextLength } = host;
    return {
      kind: "embedding",
      host,
      facts: {
        ...facts,
        contextLength,
        longestTokenBytes: host.longestTokenBytes,
        embeddingDims: model.embeddingDims,
        tools: "none",
      },
    };
  }
  if (!model.generates) {
    throw new Error(`it is an encoder ('${model.architecture}') and makes embeddings, not text`);
  }
  const host = await ChatHost.open(model, spec, turns);
  if (model.chatTemplate !== null && host.template.isFallback) {
    onLog(`the chat template of the model '${spec.id}' fails to compile: its conversations are written as ChatML`);
  }
  const tools = host.template.toolFormat === null ? "forced-only" : "auto";
  const { contextLength, longestTokenBytes } = host;
  return { kind: "chat", host, facts: { ...facts, contextLength, longestTokenBytes, embeddingDims: null, tools } };
}

/** Why a model could not be loaded and what to do about it. `logged`: what the native code complained about. */
export function loadFailure(model: ChildModel, thrown: unknown, logged: readonly string[]): EngineError {
  const message = `The model '${model.id}' cannot be loaded: ${explain(model, thrown, logged)}`;
  return new EngineError("model_not_loaded", message, { cause: thrown });
}

const pullAgain = "Fetch it again with 'uis models pull'.";

function explain(
  { path, moduleDir, contextLength, slots }: ChildModel,
  thrown: unknown,
  logged: readonly string[],
): string {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const complaints = logged.join("\n");
  // The binding's errors have classes, but no names of their own.
  switch ("code" in error ? error.code : error.constructor.name) {
    case "ENOENT":
      return `the file '${path}' does not exist. ${pullAgain}`;
    case "EACCES":
      return `the file '${path}' may not be read. Give the service's user read access to it.`;
    case "ERR_MODULE_NOT_FOUND":
      return `node-llama-cpp is not installed in '${moduleDir ?? "the service's own folder"}'. Install it there.`;
    case "NoBinaryFoundError":
      return "node-llama-cpp has no binary for this platform. Install the package again without '--omit=optional'.";
    case "InvalidGgufMagicError":
      return `the file '${path}' is no GGUF file. ${pullAgain}`;
    case "InsufficientMemoryError":
      return (
        `there is too little memory for ${slots} slots of ${contextLength} tokens (${error.message}). ` +
        "Lower the model's 'slots' or 'context_length'."
      );
  }
  const architecture = /unknown model architecture: '([^']*)'/.exec(complaints)?.[1];
  if (architecture !== undefined) {
    return `this version of node-llama-cpp does not know its architecture '${architecture}'. Choose another model.`;
  }
  if (/not within the file bounds|corrupted|incomplete|failed to read|unexpectedly reached end/.test(complaints)) {
    return `the file '${path}' is damaged or cut off. ${pullAgain}`;
  }
  const complaint = logged[0] === undefined ? "" : ` (${logged[0]})`;
  return `${error.message}${complaint}. Choose another model, or fetch this one again with 'uis models pull'.`;
}

/** Of the file's beginning, where its header is. */
const headBytes = 1_048_576;
/** Weights of one architecture have equal headers, so the hash looks into the weights as well. */
const samples = 32;
const sampleBytes = 4_096;

/** Twelve hex digits of a hash of all that determines the answers (RESP-11). */
export async function fingerprintOf(path: string, bindingVersion: string): Promise<string> {
  const hash = createHash("sha256").update(`llama ${samplingVersion} ${bindingVersion} `);
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
