import { createHash, type Hash } from "node:crypto";
import { type FileHandle, open, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import {
  asNoSpace,
  type FileSum,
  type FreeBytes,
  hashInto,
  ModelFileError,
  type Pin,
  requirePin,
  requireSpace,
  SourceUnavailable,
  sumFile,
} from "../files/model-files.js";
import { type HttpAnswer, type HttpClient, refusal } from "./http-client.js";

export interface Download {
  readonly url: URL;
  /** The value of an Authorization header. */
  readonly authorization?: string;
  /** Path of the complete file. Before, `PATH.part` has the bytes received and `PATH.etag` their entity tag. */
  readonly path: string;
  /** Name of the file in messages. */
  readonly what: string;
  readonly pin?: Pin;
  /** `totalBytes`: length of the whole file; `receivedBytes` includes the bytes of earlier attempts. */
  readonly onProgress: (receivedBytes: number, totalBytes: number) => void;
  readonly signal: AbortSignal;
}

interface DownloaderOptions {
  /** Maximum time without data; then the download fails. */
  readonly stallTimeoutMs: number;
  /** Delay before an interrupted download is resumed; longer after attempts that received nothing. */
  readonly resumeDelayMs: number;
  readonly freeBytes: FreeBytes;
}

/** Maximum attempts in a row that receive nothing; then an interrupted download fails, after some two minutes. */
const fruitlessMax = 8;
/** Maximum attempts of one call. */
const attemptsMax = 500;
/** The delay before a resume doubles with each attempt that received nothing, up to this many times the first delay. */
const delayGrowthMax = 30;

/** The connection ended before the file was complete; the bytes received are kept. */
class CutShort extends Error {}

/** Bytes of a file that an earlier attempt received. */
interface Beginning {
  readonly bytes: number;
  /** The strong entity tag of the file's version; null if the server sent none. */
  readonly version: string | null;
  readonly hash: Hash;
}

/** A response that is being written to an open part file. */
interface Transfer {
  readonly answer: HttpAnswer;
  readonly file: FileHandle;
  readonly hash: Hash;
  /** Number of bytes that the part file had before this response. */
  readonly bytes: number;
  readonly totalBytes: number;
}

/** Fetches files over HTTP, resuming interrupted downloads; a file gets its name only once it is verified. */
export class Downloader {
  readonly #client: HttpClient;
  readonly #options: DownloaderOptions;

  constructor(client: HttpClient, options: DownloaderOptions) {
    this.#client = client;
    this.#options = options;
  }

  /**
   * Fetches a file, continuing the part file of an earlier call. Rejects with SourceUnavailable or the signal's reason (the
   * bytes received are kept), or with ModelFileError.
   */
  async fetch(download: Download): Promise<FileSum> {
    const { path, what, pin, signal, url } = download;
    if (await stat(path).catch(() => null)) {
      const sum = await sumFile(path, signal);
      requirePin(what, sum, pin);
      return sum;
    }
    let received = 0;
    const onProgress = (receivedBytes: number, totalBytes: number): void => {
      received = receivedBytes;
      download.onProgress(receivedBytes, totalBytes);
    };
    for (let attempts = 1, fruitless = 0; ; attempts += 1) {
      const before = received;
      try {
        return await this.#attempt({ ...download, onProgress });
      } catch (cause) {
        if (!isInterruption(cause, received > 0)) throw cause;
        fruitless = received > before ? 0 : fruitless + 1;
        if (fruitless > fruitlessMax || attempts === attemptsMax) {
          if (cause instanceof SourceUnavailable) throw cause;
          const message = `${url.host} cuts the connection repeatedly: try again later (the download is resumed)`;
          throw new SourceUnavailable(message, { cause });
        }
        const growth = Math.min(2 ** fruitless, delayGrowthMax);
        await delay(this.#options.resumeDelayMs * growth, null, { signal }).catch(() => null);
        signal.throwIfAborted();
      }
    }
  }

  async #attempt(download: Download): Promise<FileSum> {
    const { url, authorization } = download;
    const begun = await beginningOf(download);
    const stalled = new AbortController();
    const { stallTimeoutMs } = this.#options;
    const stallTimer = setTimeout(() => {
      const silence = `${url.host} has sent nothing for ${stallTimeoutMs / 1_000} s`;
      stalled.abort(new SourceUnavailable(`${silence}: try again (the download is resumed), or use another source`));
    }, stallTimeoutMs);
    const signal = AbortSignal.any([download.signal, stalled.signal]);
    try {
      const answer = await this.#client.get({
        url,
        headers: { "accept-encoding": "identity", ...(begun ? rangeFrom(begun) : {}) },
        ...(authorization === undefined ? {} : { authorization }),
        signal,
      });
      return await receive(download, await this.#open(download, answer, begun), stallTimer);
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    } finally {
      clearTimeout(stallTimer);
    }
  }

  /** Checks the head of a response and opens the part file at the byte where the response continues. */
  async #open(download: Download, answer: HttpAnswer, begun: Beginning | null): Promise<Transfer> {
    const { path, what } = download;
    const totalBytes = totalOf(answer, begun?.bytes ?? 0);
    try {
      if (answer.status === 416 || (answer.status === 206 && totalBytes === null)) {
        await discardPart(path);
        throw new CutShort("the file at the source has changed since the download began");
      }
      if (answer.status !== 200 && answer.status !== 206) throw refusal(answer, what);
      if (totalBytes === null) throw new SourceUnavailable(`${answer.host} does not say how long ${what} is`);
      requireLength(download, totalBytes);
      const kept = answer.status === 206 ? begun : null;
      await requireSpace(dirname(path), totalBytes - (kept?.bytes ?? 0), this.#options.freeBytes);
      if (kept) return { answer, file: await open(`${path}.part`, "a", 0o600), ...kept, totalBytes };
      await discardPart(path);
      const version = strongTagOf(answer);
      if (version !== null) await writeFile(`${path}.etag`, version, { mode: 0o600 });
      const file = await open(`${path}.part`, "w", 0o600);
      return { answer, file, hash: createHash("sha256"), bytes: 0, totalBytes };
    } catch (error) {
      await answer.body.dump().catch(() => null);
      throw error;
    }
  }
}

/** Whether an error allows a resume: the connection broke or, after the download has begun, the host did not answer. */
function isInterruption(cause: unknown, hasBegun: boolean): boolean {
  if (cause instanceof CutShort) return true;
  return hasBegun && cause instanceof SourceUnavailable && cause.status === null;
}

/** Writes the body to the part file, which becomes the complete file once it is verified. */
async function receive(
  { path, what, pin, onProgress }: Download,
  { answer, file, hash, bytes: begun, totalBytes }: Transfer,
  stallTimer: NodeJS.Timeout,
): Promise<FileSum> {
  let bytes = begun;
  try {
    onProgress(bytes, totalBytes);
    for await (const chunk of chunksOf(answer)) {
      stallTimer.refresh();
      bytes += chunk.length;
      if (bytes > totalBytes) throw new ModelFileError("malformed", `${answer.host} sends more than it announced`);
      hash.update(chunk);
      await file.writeFile(chunk);
      onProgress(bytes, totalBytes);
    }
    if (bytes < totalBytes) throw new CutShort(`${totalBytes - bytes} bytes are missing`);
    await file.datasync();
  } catch (error) {
    throw asNoSpace(error, dirname(path), totalBytes - bytes);
  } finally {
    await file.close();
  }
  const sum = { sha256: hash.digest("hex"), bytes };
  requirePin(what, sum, pin);
  await rename(`${path}.part`, path);
  await rm(`${path}.etag`, { force: true });
  return sum;
}

/** The bytes that an earlier attempt received, if the rest can be requested; null: the download starts from the beginning. */
async function beginningOf({ path, pin, signal }: Download): Promise<Beginning | null> {
  const bytes = (await stat(`${path}.part`).catch(ignoreMissing))?.size ?? 0;
  const version = await readFile(`${path}.etag`, "utf8").catch(ignoreMissing);
  if (bytes === 0 || bytes >= (pin?.bytes ?? Infinity)) return null;
  // Without an entity tag or an expected sum, a mixture of two versions would not be detected.
  if (version === null && pin === undefined) return null;
  const hash = createHash("sha256");
  await hashInto(hash, `${path}.part`, signal);
  return { bytes, version, hash };
}

async function discardPart(path: string): Promise<void> {
  await rm(`${path}.part`, { force: true });
  await rm(`${path}.etag`, { force: true });
}

function ignoreMissing(error: NodeJS.ErrnoException): null {
  if (error.code === "ENOENT") return null;
  throw error;
}

/** The body's chunks; an error of the connection becomes CutShort. */
async function* chunksOf({ body }: HttpAnswer): AsyncGenerator<Buffer> {
  const chunks = body[Symbol.asyncIterator]();
  for (;;) {
    const next = await chunks.next().catch((cause: unknown) => {
      throw new CutShort("the connection was cut", { cause });
    });
    if (next.done === true) return;
    yield next.value;
  }
}

function rangeFrom({ bytes, version }: Beginning): Record<string, string> {
  return { range: `bytes=${bytes}-`, ...(version === null ? {} : { "if-range": version }) };
}

/** Length of the whole file from the response's headers; null if it is missing or the body does not continue at `begun`. */
function totalOf({ status, headers }: HttpAnswer, begun: number): number | null {
  if (status === 200) return toLength(headers["content-length"]);
  const [, start, total] = /^bytes (\d+)-\d+\/(\d+)$/.exec(String(headers["content-range"])) ?? [];
  return toLength(start) === begun ? toLength(total) : null;
}

function toLength(text: unknown): number | null {
  return typeof text === "string" && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** The response's entity tag if it is strong, because a weak one does not guarantee equal bytes; null: none. */
function strongTagOf({ headers }: HttpAnswer): string | null {
  const tag = headers["etag"];
  return typeof tag === "string" && tag.startsWith('"') ? tag : null;
}

function requireLength({ pin, what, url }: Download, totalBytes: number): void {
  if (pin?.bytes === undefined || pin.bytes === totalBytes) return;
  throw new ModelFileError(
    "checksum",
    `${what} has ${totalBytes} bytes at ${url.host}, expected are ${pin.bytes}: it is another file; use another source, or the sum that its publisher names`,
  );
}
