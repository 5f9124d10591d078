import { register } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type * as Binding from "node-llama-cpp";
import { type BuildChoice, packageScope } from "../builds/builds.js";
import type { ChildModel, Placement } from "../protocol/protocol.js";

/** The binding and the library that it loaded. */
export interface OpenBinding {
  readonly binding: typeof Binding;
  readonly llama: Binding.Llama;
  /** Builds that were tried before this one and do not load on this machine. */
  readonly unusable: readonly string[];
}

export interface BindingOptions {
  readonly build: BuildChoice;
  /** Undefined: the binding's default. */
  readonly threads?: number;
  /** Called with each error line of the native code. */
  onLog(line: string): void;
}

/** Loads the first build of the choice that works on this machine. Rejects with the binding's error if none does. */
export async function openBinding({ build, threads, onLog }: BindingOptions): Promise<OpenBinding> {
  const binding = await importBinding(build);
  const unusable: string[] = [];
  for (const [i, gpu] of build.gpus.entries()) {
    try {
      const llama = await binding.getLlama({
        build: "never",
        gpu,
        skipDownload: true,
        ...(threads === undefined ? {} : { maxThreads: threads }),
        logLevel: binding.LlamaLogLevel.error,
        logger: (_level, message) => onLog(message.trimEnd()),
        progressLogs: false,
      });
      return { binding, llama, unusable };
    } catch (error) {
      if (i === build.gpus.length - 1 || !(error instanceof binding.NoBinaryFoundError)) throw error;
      unusable.push(String(gpu));
    }
  }
  throw new Error("no build of the engine was chosen");
}

/**
 * Loads a model's weights. The graphics card gets as many layers as its free memory holds in addition to the contexts of all
 * slots, at most the configured number; the other layers compute on the processor.
 */
export async function loadWeights(
  { binding, llama, unusable }: OpenBinding,
  { path, build, contextLength, slots, kind }: ChildModel,
  onProgress: (share: number) => void,
): Promise<{ readonly model: Binding.LlamaModel; readonly placement: Placement }> {
  const file = { modelPath: path, onLoadProgress: onProgress };
  const onProcessor = () => llama.loadModel({ ...file, gpuLayers: 0, ignoreMemorySafetyChecks: true });
  const onCard = (): Promise<Binding.LlamaModel> => {
    const fitContext = { contextSize: contextLength * slots, embeddingContext: kind === "embedding" };
    const max = build.gpuLayers === null ? {} : { max: build.gpuLayers };
    return llama.loadModel({ ...file, gpuLayers: { min: 0, ...max, fitContext } }).catch((error: unknown) => {
      // Buffers take memory of the card even if no layer is on it.
      if (error instanceof binding.InsufficientMemoryError) return onProcessor();
      throw error;
    });
  };
  if (llama.gpu === false) {
    const model = await llama.loadModel(file);
    return { model, placement: { gpu: null, gpuLayers: 0, layers: model.fileInsights.totalLayers, unusable } };
  }
  const model = await (build.gpuLayers === 0 ? onProcessor() : onCard());
  const { gpuLayers, fileInsights } = model;
  const gpu = gpuLayers === 0 ? null : llama.gpu;
  return { model, placement: { gpu, gpuLayers, layers: fileInsights.totalLayers, unusable } };
}

function importBinding(build: BuildChoice): Promise<typeof Binding> {
  const redirect = redirectedPackages(build);
  if (redirect !== null) register(redirect.loader, { data: redirect.files });
  return import(bindingModule(build));
}

/** The name or URL that imports the binding. */
export function bindingModule({ moduleDir }: BuildChoice): string {
  if (moduleDir === null) return "node-llama-cpp";
  return pathToFileURL(join(moduleDir, "node_modules", "node-llama-cpp", "dist", "index.js")).href;
}

/** Source of a module loader that resolves the names of packages to the files in `files`. */
const loader = `
let files = {};
export function initialize(given) { files = given; }
export function resolve(name, context, next) {
  return Object.hasOwn(files, name) ? { url: files[name], shortCircuit: true } : next(name, context);
}`;

/**
 * The module loader, with its data, for packages outside of the binding's `node_modules`, which the binding imports by name.
 * Null: the binding finds all packages by itself.
 */
export function redirectedPackages({
  packages,
}: BuildChoice): { loader: string; files: Record<string, string> } | null {
  const files = Object.entries(packages).map(([id, folder]) => {
    return [`${packageScope}${id}`, pathToFileURL(join(folder, "dist", "index.js")).href];
  });
  if (files.length === 0) return null;
  return { loader: `data:text/javascript,${encodeURIComponent(loader)}`, files: Object.fromEntries(files) };
}
