import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Downloader } from "../download/downloader.js";
import { type Pin, SourceUnavailable } from "../files/model-files.js";
import { encoderFiles, type FetchedModel, type Fetching, type HubSource } from "./source.js";

/** A model hub: the public one, a mirror of it, or one in the operator's network. */
interface Hub {
  /** Address without a slash at its end. */
  readonly endpoint: string;
  /** Sent to the hub itself, never to the target of a redirect; empty for none. */
  readonly token: string;
}

/** Fetches a file of a repository, or the files of the encoder in its top folder. */
export async function fetchHub(
  { repository, path, revision }: HubSource,
  { folder, pins, onProgress, signal }: Fetching,
  hub: Hub,
  downloader: Downloader,
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

  /** Answers whether the repository has the file. */
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
