import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { encoderFiles } from "../bert/encoder.js";
import type { Downloader } from "../download/downloader.js";
import { SourceUnavailable } from "../files/model-errors.js";
import type { FetchedModel, Fetching } from "./fetched-model.js";
import type { HubSource } from "./source.js";

/** A model hub: the public one, a mirror of it, or one within the operator's network. */
interface Hub {
  /** Address without a slash at its end. */
  readonly endpoint: string;
  /** Sent to the hub itself, never to where it redirects; empty for none. */
  readonly token: string;
}

/** Fetches a file of a repository, or the files of the encoder that its top folder holds. */
export async function fetchHub(source: HubSource, fetching: Fetching, hub: Hub, downloader: Downloader) {
  const files = new HubFiles(source, fetching, hub, downloader);
  if (source.path === null) return files.fetchEncoder();
  return files.fetchGguf(source.path);
}

class HubFiles {
  readonly #source: HubSource;
  readonly #fetching: Fetching;
  readonly #hub: Hub;
  readonly #downloader: Downloader;
  #receivedBytes = 0;

  constructor(source: HubSource, fetching: Fetching, hub: Hub, downloader: Downloader) {
    this.#source = source;
    this.#fetching = fetching;
    this.#hub = hub;
    this.#downloader = downloader;
  }

  async fetchGguf(path: string): Promise<FetchedModel> {
    const to = join(this.#fetching.folder, "model.gguf");
    const pin = this.#fetching.pins.file;
    await this.#fetch(path, to, pin, (total) => total);
    return { kind: "gguf", path: to };
  }

  async fetchEncoder(): Promise<FetchedModel> {
    const pinned = this.#fetching.pins.encoder;
    if (pinned) {
      for (const name of Object.keys(pinned)) await this.#fetchPart(name);
    } else {
      const [preferred, other] = encoderFiles.vocabularies;
      for (const name of encoderFiles.required) await this.#fetchPart(name);
      if (!(await this.#fetchIfThere(preferred))) await this.#fetchPart(other);
      await this.#fetchIfThere(encoderFiles.pooling);
    }
    return { kind: "encoder", folder: this.#encoderFolder };
  }

  async #fetchIfThere(name: string): Promise<boolean> {
    try {
      await this.#fetchPart(name);
      return true;
    } catch (error) {
      if (error instanceof SourceUnavailable && error.status === 404) return false;
      throw error;
    }
  }

  async #fetchPart(name: string): Promise<void> {
    const pinned = this.#fetching.pins.encoder;
    const sizes = Object.values(pinned ?? {}).map((pin) => pin.bytes);
    const total =
      pinned && sizes.every((bytes) => bytes !== undefined) ? sizes.reduce((sum, bytes) => sum + bytes, 0) : null;
    const to = join(this.#encoderFolder, name);
    await mkdir(dirname(to), { recursive: true, mode: 0o700 });
    await this.#fetch(name, to, pinned?.[name], () => total);
  }

  async #fetch(path: string, to: string, pin: Fetching["pins"]["file"], totalOf: (total: number) => number | null) {
    const { onProgress, signal } = this.#fetching;
    const before = this.#receivedBytes;
    const sum = await this.#downloader.fetch({
      url: this.#url(path),
      ...(this.#hub.token === "" ? {} : { authorization: `Bearer ${this.#hub.token}` }),
      path: to,
      what: `${this.#source.repository}/${path}`,
      ...(pin ? { pin } : {}),
      onProgress: (received, total) => onProgress(before + received, totalOf(total)),
      signal,
    });
    this.#receivedBytes += sum.bytes;
  }

  #url(path: string): URL {
    const { repository, revision } = this.#source;
    const encoded = path.split("/").map(encodeURIComponent).join("/");
    return new URL(`${this.#hub.endpoint}/${repository}/resolve/${encodeURIComponent(revision)}/${encoded}`);
  }

  get #encoderFolder(): string {
    return join(this.#fetching.folder, "encoder");
  }
}
