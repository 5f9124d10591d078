import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Downloader } from "../download/downloader.js";
import type { HttpClient } from "../download/http-client.js";
import { type Pin, SourceUnavailable } from "../files/model-files.js";
import { findHubFile, type Hub } from "./hub-api.js";
import { encoderFiles, type FetchedModel, type Fetching, type HubSource } from "./source.js";

interface HubAccess {
  readonly hub: Hub;
  readonly client: HttpClient;
  readonly downloader: Downloader;
}

/** Fetches a file of a repository, or the files of the encoder in its top folder. */
export async function fetchHub(source: HubSource, fetching: Fetching, access: HubAccess): Promise<FetchedModel> {
  const { repository, quantization, revision } = source;
  if (quantization === null) return fetchFiles(source, fetching, access);
  const { hub, client } = access;
  const file = await findHubFile({ repository, quantization, revision }, hub, client, fetching.signal);
  const pin = fetching.pins.file ?? file.pin;
  const pins = pin === null ? {} : { file: pin };
  // The file is fetched at the commit of the list, so that it cannot change between the two requests.
  const chosen = { ...source, path: file.path, revision: file.revision };
  return fetchFiles(chosen, { ...fetching, pins }, access);
}

async function fetchFiles(
  { repository, path, revision }: HubSource,
  { folder, pins, onProgress, signal }: Fetching,
  { hub, downloader }: HubAccess,
): Promise<FetchedModel> {
  const encoderFolder = join(folder, "encoder");
  const sizes = Object.values(pins.encoder ?? {}).map(({ bytes }) => bytes ?? Number.NaN);
  const encoderBytes = sizes.reduce((sum, bytes) => sum + bytes, 0) || null;
  let receivedBytes = 0;

  const fetchTo = async (to: string, name: string, pin: Pin | undefined, totalOf: (total: number) => number | null) => {
    const encoded = name.split("/").map(encodeURIComponent).join("/");
    const before = receivedBytes;
    const sum = await downloader.fetch({
      url: new URL(`${hub.endpoint}/${repository}/resolve/${encodeURIComponent(revision)}/${encoded}`),
      ...(hub.token === "" ? {} : { authorization: `Bearer ${hub.token}` }),
      path: to,
      what: `${repository}/${name}`,
      ...(pin ? { pin } : {}),
      onProgress: (received, total) => onProgress(before + received, totalOf(total)),
      signal,
    });
    receivedBytes += sum.bytes;
  };

  const fetchPart = async (name: string): Promise<void> => {
    const to = join(encoderFolder, name);
    await mkdir(dirname(to), { recursive: true, mode: 0o700 });
    await fetchTo(to, name, pins.encoder?.[name], () => encoderBytes);
  };

  /** Fetches a file if the repository has it; returns whether it has. */
  const fetchOptional = async (name: string): Promise<boolean> => {
    try {
      await fetchPart(name);
      return true;
    } catch (error) {
      if (error instanceof SourceUnavailable && error.status === 404) return false;
      throw error;
    }
  };

  if (path !== null) {
    const to = join(folder, "model.gguf");
    await fetchTo(to, path, pins.file, (total) => total);
    return { kind: "gguf", path: to };
  }
  for (const name of Object.keys(pins.encoder ?? {})) await fetchPart(name);
  if (pins.encoder === undefined) {
    const [preferred, other] = encoderFiles.vocabularies;
    for (const name of encoderFiles.required) await fetchPart(name);
    if (!(await fetchOptional(preferred))) await fetchPart(other);
    await fetchOptional(encoderFiles.pooling);
  }
  return { kind: "encoder", folder: encoderFolder };
}
