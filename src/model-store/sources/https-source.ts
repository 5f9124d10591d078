import { join } from "node:path";
import type { Downloader } from "../download/downloader.js";
import type { HttpsSource } from "../source.js";
import type { FetchedModel, Fetching } from "./fetched-model.js";

/** Fetches the GGUF that the address leads to. */
export async function fetchHttps(
  source: HttpsSource,
  fetching: Fetching,
  downloader: Downloader,
): Promise<FetchedModel> {
  const { folder, pins, onProgress, signal } = fetching;
  const path = join(folder, "model.gguf");
  const url = new URL(source.url);
  const pin = pins.file;
  await downloader.fetch({ url, path, what: "the model", ...(pin ? { pin } : {}), onProgress, signal });
  return { kind: "gguf", path };
}
