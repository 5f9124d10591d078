import { constants, copyFile, lstat, open, realpath, stat } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { AddressRules } from "../../lib/address-rules.js";
import { Downloader } from "../download/downloader.js";
import { HttpClient } from "../download/http-client.js";
import {
  asNoSpace,
  type FreeBytes,
  freeBytesOf,
  ModelFileError,
  requirePin,
  requireSpace,
  SourceUnavailable,
  sumFile,
} from "../files/model-files.js";
import { unpackModel } from "./archive.js";
import { type FoundRepository, type Hub, searchHub } from "./hub-api.js";
import { fetchHub } from "./hub-source.js";
import { fetchPypi } from "./pypi-source.js";
import {
  encoderFiles,
  type FetchedModel,
  type Fetching,
  type FileSource,
  formatSource,
  type ModelSource,
} from "./source.js";

/** Fetches models from sources of every kind. */
export class SourceFetcher {
  readonly #options: PullOptions;
  readonly #client: HttpClient;
  readonly #downloader: Downloader;
  readonly #guardedClient: HttpClient;

  constructor(options: PullOptions) {
    this.#options = options;
    this.#client = new HttpClient(options);
    this.#downloader = new Downloader(this.#client, options);
    this.#guardedClient = new HttpClient(options, new AddressRules(options.pullAllow));
  }

  /** Rejects with SourceUnavailable, ModelFileError or the signal's reason. */
  async fetch(source: ModelSource, fetching: Fetching): Promise<FetchedModel> {
    const { offline, pipEnvironment, pipTimeoutMs, freeBytes } = this.#options;
    const { folder, pins, isGuarded, onProgress, signal } = fetching;
    if (source.kind === "file") {
      if (isGuarded) await requireInside([source.path, ...encoderPaths(source.path)], this.#options.importDirs);
      return fetchFile(source, fetching, freeBytes);
    }
    if (offline) {
      throw new SourceUnavailable(
        `${formatSource(source)} is not fetched because the service is offline (UIS_OFFLINE): import the model from a file`,
      );
    }
    switch (source.kind) {
      case "hub":
        return fetchHub(source, fetching, { hub: this.#hub, client: this.#client, downloader: this.#downloader });
      case "https": {
        const path = join(folder, "model.gguf");
        const pin = pins.file ? { pin: pins.file } : {};
        // Only addresses are guarded: the caller chooses them, while the operator chooses the hub and the package index.
        const downloader = isGuarded ? new Downloader(this.#guardedClient, this.#options) : this.#downloader;
        await downloader.fetch({ url: new URL(source.url), path, what: "the model", ...pin, onProgress, signal });
        return { kind: "gguf", path };
      }
      case "pypi":
        return fetchPypi(source, fetching, { environment: pipEnvironment, timeoutMs: pipTimeoutMs, freeBytes });
    }
  }

  /** Repositories of the hub that match the words. Rejects with SourceUnavailable or the signal's reason. */
  async search(words: string, signal: AbortSignal): Promise<readonly FoundRepository[]> {
    if (this.#options.offline) {
      throw new SourceUnavailable("the model hub is not searched because the service is offline (UIS_OFFLINE)");
    }
    return searchHub(words, this.#hub, this.#client, signal);
  }

  get #hub(): Hub {
    const { hubEndpoint, hubToken } = this.#options;
    return { endpoint: hubEndpoint.replace(/\/+$/, ""), token: hubToken };
  }

  /** Whether an interrupted fetch leaves files that the next one continues. */
  canResume({ kind }: ModelSource): boolean {
    return kind === "hub" || kind === "https";
  }

  async close(): Promise<void> {
    await this.#client.close();
    await this.#guardedClient.close();
  }
}

/** Takes a model from this machine: a GGUF, a wheel or zip file, an encoder's folder or its model.safetensors. */
async function fetchFile({ path }: FileSource, fetching: Fetching, freeBytes: FreeBytes): Promise<FetchedModel> {
  const { folder, pins, onProgress, signal } = fetching;
  const found = await stat(path).catch((cause: unknown) => {
    throw new ModelFileError("missing", `${path} cannot be read: check its name and its permissions`, { cause });
  });
  await requireRegular(encoderPaths(path));
  if (found.isDirectory()) return { kind: "encoder", folder: path };
  await requireRegular([path]);
  if (pins.file) requirePin(path, await sumFile(path, signal), pins.file);
  if (path.endsWith(`/${encoderFiles.weights}`)) return { kind: "encoder", folder: dirname(path) };
  if (await startsLikeZip(path)) return unpackModel(path, null, { folder, freeBytes, signal });
  const to = join(folder, "model.gguf");
  await requireSpace(folder, found.size, freeBytes);
  onProgress(0, found.size);
  try {
    await copyFile(path, to, constants.COPYFILE_FICLONE);
  } catch (error) {
    throw asNoSpace(error, folder, found.size);
  }
  onProgress(found.size, found.size);
  return { kind: "gguf", path: to };
}

/** The files that are read if the path is an encoder's folder, or its weights. */
function encoderPaths(path: string): readonly string[] {
  const { weights, required, vocabularies, pooling } = encoderFiles;
  const folder = path.endsWith(`/${weights}`) ? dirname(path) : path;
  return [...required, ...vocabularies, pooling].map((name) => join(folder, name));
}

/** Throws for paths that are no regular files: reading a named pipe or a device might not end. Ignores missing files. */
async function requireRegular(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const found = await stat(path).catch(() => null);
    if (found === null || found.isFile()) continue;
    throw new ModelFileError("unsupported", `${path} is not a regular file: name a file with a model, or its folder`);
  }
}

/**
 * Throws for paths outside of the folders. The ModelFileError does not show whether a file exists. Links are followed.
 */
async function requireInside(paths: readonly string[], folders: readonly string[]): Promise<void> {
  for (const path of paths) if (!(await isInside(path, folders))) throw outside();
}

async function isInside(path: string, folders: readonly string[]): Promise<boolean> {
  for (const folder of folders) {
    if (!isBelow(path, resolve(folder))) continue;
    const [real, realFolder] = await Promise.all([realPathOf(path), realpath(folder).catch(() => null)]);
    if (real !== null && realFolder !== null && isBelow(real, realFolder)) return true;
  }
  return false;
}

function isBelow(inner: string, folder: string): boolean {
  const way = relative(folder, inner);
  return way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

/** The path with its links followed as far as it exists; null for a link whose target does not exist. */
async function realPathOf(path: string): Promise<string | null> {
  const real = await realpath(path).catch(() => null);
  if (real !== null) return real;
  const found = await lstat(path).catch(() => null);
  if (found !== null || dirname(path) === path) return null;
  const parent = await realPathOf(dirname(path));
  return parent === null ? null : join(parent, basename(path));
}

function outside(): ModelFileError {
  return new ModelFileError(
    "blocked",
    "the dashboard imports only from the folders of model_store.import_dirs: use uis models import on the service's machine",
  );
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

/** Settings of downloads, from the configuration; nothing here reads the environment. */
export interface PullOptions {
  /** Whether only files of this machine may be used. */
  readonly offline: boolean;
  /** Folders from which dashboard sessions may import. */
  readonly importDirs: readonly string[];
  /** Address ranges to which pulls of dashboard sessions may connect in addition to public addresses. */
  readonly pullAllow: readonly string[];
  /** Address of the model hub. */
  readonly hubEndpoint: string;
  /** Token that is sent to the hub only; empty for none. */
  readonly hubToken: string;
  /** Values of HTTP_PROXY, HTTPS_PROXY and NO_PROXY; empty for none. */
  readonly httpProxy: string;
  readonly httpsProxy: string;
  readonly noProxy: string;
  /** Environment of pip; its PATH is searched for pip. */
  readonly pipEnvironment: Readonly<Record<string, string | undefined>>;
  readonly connectTimeoutMs: number;
  /** Maximum time without data; then the download fails. */
  readonly stallTimeoutMs: number;
  /** Delay before an interrupted download is resumed. */
  readonly resumeDelayMs: number;
  readonly pipTimeoutMs: number;
  readonly freeBytes: FreeBytes;
}

export const defaultPullOptions: PullOptions = {
  offline: false,
  importDirs: [],
  pullAllow: [],
  hubEndpoint: "https://huggingface.co",
  hubToken: "",
  httpProxy: "",
  httpsProxy: "",
  noProxy: "",
  pipEnvironment: {},
  connectTimeoutMs: 5_000,
  stallTimeoutMs: 30_000,
  resumeDelayMs: 1_000,
  pipTimeoutMs: 600_000,
  freeBytes: freeBytesOf,
};
