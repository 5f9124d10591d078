import { z } from "zod";
import { type HttpClient, refusal } from "../download/http-client.js";
import { ModelFileError, type Pin, SourceUnavailable } from "../files/model-files.js";

/** A model hub with the API of Hugging Face: the public one, a mirror, or one in the operator's network. */
export interface Hub {
  /** Address without a slash at its end. */
  readonly endpoint: string;
  /** Token that is sent to the hub, but never to the target of a redirect; empty for none. */
  readonly token: string;
}

/** A file of a repository at one commit. */
export interface HubFile {
  readonly path: string;
  /** The commit. */
  readonly revision: string;
  /** Length and SHA-256 that the hub states; null if it states none. */
  readonly pin: Pin | null;
}

/** A repository with GGUF files. */
export interface FoundRepository {
  /** `owner/name`. */
  readonly repository: string;
  /** Quantizations that are in one file each, such as Q4_K_M, in alphabetical order. */
  readonly quantizations: readonly string[];
  readonly downloads: number;
  readonly likes: number;
  /** SPDX id or another name of the license; null if not stated. */
  readonly license: string | null;
  /** Whether downloads require the token (HF_TOKEN) of an account that has accepted the repository's terms. */
  readonly gated: boolean;
}

/** Maximum repositories of one search. */
const foundMax = 20;
/** Maximum length of an answer of the API. */
const answerBytesMax = 8 * 1024 * 1024;
const timeoutMs = 20_000;

const fileList = z.object({
  sha: z.string().regex(/^[0-9a-f]{40}$/),
  siblings: z.array(
    z.object({
      rfilename: z.string(),
      size: z.number().int().min(0).nullish(),
      lfs: z.object({ sha256: z.string().regex(/^[0-9a-f]{64}$/), size: z.number().int().min(0) }).nullish(),
    }),
  ),
});

const foundList = z.array(
  z.object({
    id: z.string(),
    downloads: z.number().nullish(),
    likes: z.number().nullish(),
    gated: z.union([z.boolean(), z.string()]).nullish(),
    tags: z.array(z.string()).nullish(),
    siblings: z.array(z.object({ rfilename: z.string() })).nullish(),
  }),
);

/** Finds the file of a quantization in the hub's list of files. Rejects with SourceUnavailable or ModelFileError. */
export async function findHubFile(
  { repository, quantization, revision }: { repository: string; quantization: string; revision: string },
  hub: Hub,
  client: HttpClient,
  signal: AbortSignal,
): Promise<HubFile> {
  const url = new URL(`${hub.endpoint}/api/models/${repository}/revision/${encodeURIComponent(revision)}?blobs=true`);
  const { sha, siblings } = await readJson(url, `the files of ${repository}`, fileList, hub, client, signal);
  const path = chooseFile(
    siblings.map(({ rfilename }) => rfilename),
    repository,
    quantization,
  );
  const lfs = siblings.find(({ rfilename }) => rfilename === path)?.lfs;
  return { path, revision: sha, pin: lfs == null ? null : { sha256: lfs.sha256, bytes: lfs.size } };
}

/** Repositories with GGUF files that match the words, by number of downloads. Rejects with SourceUnavailable. */
export async function searchHub(
  words: string,
  hub: Hub,
  client: HttpClient,
  signal: AbortSignal,
): Promise<readonly FoundRepository[]> {
  const url = new URL(`${hub.endpoint}/api/models`);
  const query = {
    search: words,
    filter: "gguf",
    sort: "downloads",
    direction: "-1",
    limit: `${foundMax}`,
    full: "true",
  };
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const found = await readJson(url, "the search", foundList, hub, client, signal);
  return found.slice(0, foundMax).map(({ id, downloads, likes, gated, tags, siblings }) => ({
    repository: id,
    quantizations: quantizationsOf((siblings ?? []).map(({ rfilename }) => rfilename)),
    downloads: downloads ?? 0,
    likes: likes ?? 0,
    license: tags?.find((tag) => tag.startsWith("license:"))?.slice("license:".length) ?? null,
    gated: gated !== undefined && gated !== null && gated !== false,
  }));
}

async function readJson<T>(
  url: URL,
  what: string,
  schema: z.ZodType<T>,
  { token }: Hub,
  client: HttpClient,
  signal: AbortSignal,
): Promise<T> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const answer = await client.get({
      url,
      headers: { accept: "application/json" },
      ...(token === "" ? {} : { authorization: `Bearer ${token}` }),
      signal: AbortSignal.any([signal, timeout]),
    });
    if (answer.status !== 200) {
      await answer.body.dump();
      throw refusal(answer, what);
    }
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of answer.body) {
      bytes += chunk.length;
      if (bytes > answerBytesMax) throw new Error(`the answer is longer than ${answerBytesMax} bytes`);
      chunks.push(chunk);
    }
    return schema.parse(JSON.parse(Buffer.concat(chunks).toString("utf8")));
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof SourceUnavailable) throw cause;
    const why = timeout.aborted ? `gave no answer within ${timeoutMs / 1_000} s` : "did not answer as a model hub does";
    throw new SourceUnavailable(`${url.host} ${why} when asked for ${what}: check HF_ENDPOINT`, { cause });
  }
}

/** Matches the end of a file's name if the file is one part of several. */
const partPattern = /-\d{5}-of-\d{5}\.gguf$/i;
/** Matches the quantization at the end of a file's name: `model-Q4_K_M.gguf`, `model.f16.gguf`. */
const quantizationPattern = /(?:^|[-._/])((?:UD-)?(?:I?Q\d|TQ\d|BF16|F16|F32|MXFP4)[A-Z0-9_]*)\.gguf$/i;

/** The GGUF files that contain a whole language model, without projectors for images. */
function modelFiles(paths: readonly string[]): readonly string[] {
  return paths.filter((path) => /\.gguf$/i.test(path) && !partPattern.test(path) && !/(^|\/)mmproj/i.test(path));
}

function quantizationsOf(paths: readonly string[]): readonly string[] {
  const named = modelFiles(paths).flatMap((path) => quantizationPattern.exec(path)?.[1]?.toUpperCase() ?? []);
  return [...new Set(named)].sort();
}

function chooseFile(paths: readonly string[], repository: string, quantization: string): string {
  const wanted = quantization.toUpperCase();
  const files = modelFiles(paths);
  const matching = files.filter((path) => quantizationPattern.exec(path)?.[1]?.toUpperCase() === wanted);
  // The shortest name is the model itself, not a variant of it.
  const [chosen] = [...matching].sort((a, b) => a.length - b.length || (a < b ? -1 : 1));
  if (chosen !== undefined) return chosen;
  const inParts = paths.some((path) => partPattern.test(path) && path.toUpperCase().includes(wanted));
  const others = quantizationsOf(paths);
  const offer = others.length === 0 ? "it has no GGUF file of a known quantization" : `it has ${others.join(", ")}`;
  throw new ModelFileError(
    inParts ? "unsupported" : "missing",
    inParts
      ? `${repository} has ${quantization} in several files, and only a model in one file can be used: ${offer}`
      : `${repository} has no ${quantization}: ${offer}`,
  );
}
