import { createHash, type Hash } from "node:crypto";
import { type FileHandle, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import {
  asNoSpace,
  type FileSum,
  type FreeBytes,
  type Pin,
  requirePin,
  requireSpace,
  sumFile,
} from "../files/file-checks.js";
import { ModelFileError, SourceUnavailable } from "../files/model-errors.js";
import { type HttpAnswer, type HttpClient, refusal } from "./http-client.js";
import { PartFile } from "./part-file.js";

export interface Download {
  readonly url: URL;
  /** The value of an Authorization header. */
  readonly authorization?: string;
  /** Where the complete file goes; what is not complete lies beside it. */
  readonly path: string;
  /** What the file is for, in messages. */
  readonly what: string;
  readonly pin?: Pin;
  /** `totalBytes` is the whole file, `receivedBytes` includes what was there before. */
  readonly onProgress: (receivedBytes: number, totalBytes: number) => void;
  readonly signal: AbortSignal;
}

interface DownloaderOptions {
  /** Silence after which a download is given up. */
  readonly stallTimeoutMs: number;
  /** Wait before a cut download goes on. */
  readonly resumeDelayMs: number;
  readonly freeBytes: FreeBytes;
}

/** Times that one call goes on after the connection was cut. */
const resumesMax = 5;

/** The connection ended before the file did; what has arrived is kept. */
class CutShort extends Error {}

/** The bytes of a file that are there, and of which version they are. */
interface Beginning {
  bytes: number;
  version: string | null;
  hash: Hash;
}

/** An open part file that an answer is written to, and how far it is. */
interface Transfer {
  file: FileHandle;
  hash: Hash;
  bytes: number;
  totalBytes: number;
}

/** Fetches files over HTTP so that nothing is fetched twice and nothing unverified gets its name. */
export class Downloader {
  readonly #client: HttpClient;
  readonly #options: DownloaderOptions;

  constructor(client: HttpClient, options: DownloaderOptions) {
    this.#client = client;
    this.#options = options;
  }

  /**
   * Fetches a file, going on from what an earlier call left. Rejects with SourceUnavailable (what has arrived is kept),
   * ModelFileError, or the signal's reason (kept as well).
   */
  async fetch(download: Download): Promise<FileSum> {
    const complete = await stat(download.path).catch(() => null);
    if (complete) return verified(download, await sumFile(download.path, download.signal));
    for (let resumes = 0; ; resumes += 1) {
      try {
        return await this.#attempt(download);
      } catch (error) {
        if (!(error instanceof CutShort)) throw error;
        if (resumes === resumesMax) {
          throw new SourceUnavailable(
            `${download.url.host} cuts the connection again and again: try again later (it goes on from there)`,
            { cause: error },
          );
        }
        await delay(this.#options.resumeDelayMs, null, { signal: download.signal }).catch(() => null);
        download.signal.throwIfAborted();
      }
    }
  }

  async #attempt(download: Download): Promise<FileSum> {
    const part = new PartFile(download.path);
    const begun = await beginningOf(part, download);
    const watch = new StallWatch(download.url.host, this.#options.stallTimeoutMs);
    const signal = AbortSignal.any([download.signal, watch.signal]);
    try {
      const answer = await this.#client.get({
        url: download.url,
        headers: { "accept-encoding": "identity", ...(begun ? rangeFrom(begun) : {}) },
        ...(download.authorization === undefined ? {} : { authorization: download.authorization }),
        signal,
      });
      const transfer = await this.#open(download, part, answer, begun);
      return await this.#receive(download, part, answer, transfer, watch);
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    } finally {
      watch.stop();
    }
  }

  /** Judges the head of an answer and opens the part file where the answer goes on. */
  async #open(download: Download, part: PartFile, answer: HttpAnswer, begun: Beginning | null): Promise<Transfer> {
    const totalBytes = totalOf(answer, begun?.bytes ?? 0);
    try {
      if (answer.status === 416 || (answer.status === 206 && totalBytes === null)) {
        await part.discard();
        throw new CutShort("the file at the source is not the one that was begun");
      }
      if (answer.status !== 200 && answer.status !== 206) throw refusal(answer, download.what);
      if (totalBytes === null) throw new SourceUnavailable(`${answer.host} does not say how long ${download.what} is`);
      requireLength(download, totalBytes);
      const kept = answer.status === 206 ? begun : null;
      await requireSpace(dirname(download.path), totalBytes - (kept?.bytes ?? 0), this.#options.freeBytes);
      if (kept) return { file: await part.append(), hash: kept.hash, bytes: kept.bytes, totalBytes };
      return { file: await part.restart(versionOf(answer)), hash: createHash("sha256"), bytes: 0, totalBytes };
    } catch (error) {
      await answer.body.dump().catch(() => null);
      throw error;
    }
  }

  async #receive(download: Download, part: PartFile, answer: HttpAnswer, transfer: Transfer, watch: StallWatch) {
    const { file, hash, totalBytes } = transfer;
    let { bytes } = transfer;
    try {
      download.onProgress(bytes, totalBytes);
      for await (const chunk of chunksOf(answer)) {
        watch.touch();
        bytes += chunk.length;
        if (bytes > totalBytes) throw new ModelFileError("malformed", `${answer.host} sends more than it announced`);
        hash.update(chunk);
        await file.writeFile(chunk);
        download.onProgress(bytes, totalBytes);
      }
      if (bytes < totalBytes) throw new CutShort(`${totalBytes - bytes} bytes are missing`);
      await file.datasync();
    } catch (error) {
      throw asNoSpace(error, dirname(download.path), totalBytes - bytes);
    } finally {
      await file.close();
    }
    const sum = verified(download, { sha256: hash.digest("hex"), bytes });
    await part.complete();
    return sum;
  }
}

/** What an earlier attempt left, if the rest can be asked for. */
async function beginningOf(part: PartFile, { pin, signal }: Download): Promise<Beginning | null> {
  const bytes = await part.bytes();
  const version = await part.version();
  if (bytes === 0 || bytes >= (pin?.bytes ?? Infinity)) return null;
  // Without a version or a sum nobody could tell whether the rest belongs to what is there.
  if (version === null && pin === undefined) return null;
  try {
    return { bytes, version, hash: await part.hash(signal) };
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
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

/** Length of the whole file by the answer's head; null when that does not say or does not go on at `there`. */
function totalOf({ status, headers }: HttpAnswer, there: number): number | null {
  if (status === 200) return toLength(headers["content-length"]);
  const [, start, total] = /^bytes (\d+)-\d+\/(\d+)$/.exec(String(headers["content-range"])) ?? [];
  return toLength(start) === there ? toLength(total) : null;
}

function toLength(text: unknown): number | null {
  return typeof text === "string" && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** Only a strong tag vouches for equal bytes. */
function versionOf({ headers }: HttpAnswer): string | null {
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

function verified({ what, pin }: Download, sum: FileSum): FileSum {
  requirePin(what, sum, pin);
  return sum;
}

/** Ends an exchange in which nothing has arrived for too long. */
class StallWatch {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;

  /** The limit counts from now, and again from each `touch`. */
  constructor(host: string, limitMs: number) {
    this.#timer = setTimeout(() => {
      this.#controller.abort(
        new SourceUnavailable(
          `${host} has sent nothing for ${limitMs / 1_000} s: try again (it goes on from there), or use another source`,
        ),
      );
    }, limitMs);
  }

  /** Aborts with SourceUnavailable. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  touch(): void {
    this.#timer.refresh();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
