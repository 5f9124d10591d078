import { stat } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import type { ChildModel, LoadedFacts } from "../protocol.js";
import { ChatHost } from "./chat-host.js";
import { EmbeddingHost } from "./embedding-host.js";
import { fingerprintOf } from "./fingerprint.js";
import { loadFailure } from "./load-failure.js";
import { openNativeModel } from "./native.js";
import type { NativeModel } from "./native-model.js";
import type { Turns } from "./turns.js";

export type LoadedHost =
  | { readonly kind: "chat"; readonly host: ChatHost; readonly facts: LoadedFacts }
  | { readonly kind: "embedding"; readonly host: EmbeddingHost; readonly facts: LoadedFacts };

export interface LoadDeps {
  readonly turns: Turns;
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
