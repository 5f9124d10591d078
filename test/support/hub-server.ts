import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A fault that the hub plays for one request instead of serving the file. */
export type HubTrick =
  /** An empty answer of that status. */
  | { readonly status: number }
  /** A redirect. */
  | { readonly redirectTo: string }
  /** No answer at all; the connection stays open. */
  | "silence"
  /** Sends this number of bytes, then nothing more. */
  | { readonly stallAfterBytes: number }
  /** Sends this number of bytes, then resets the connection. Readers may lose their buffer of about 128 KiB. */
  | { readonly cutAfterBytes: number }
  /** Sends the file at about this rate. */
  | { readonly bytesPerSecond: number }
  /** Sends the right length with one wrong byte. */
  | "wrong bytes"
  /** Sends the whole file and ignores the range. */
  | "no ranges"
  /** No length is announced. */
  | "no length"
  /** Serves the file normally. */
  | "none";

/** The commit of every repository; its files are also served there. */
const hubCommit = "c0ffee00".repeat(5);

/** A request as the hub saw it. */
export interface HubRequest {
  readonly path: string;
  readonly range: string | undefined;
  readonly authorization: string | undefined;
}

/**
 * A model hub on this machine: set HF_ENDPOINT to its `endpoint`. It serves files added with `put`, with ranges and entity
 * tags, and plays one fault per request for each one given to `play`.
 */
export class HubServer {
  /** Address without a slash at its end. */
  readonly endpoint: string;
  /** Every request so far, in order. */
  readonly requests: HubRequest[] = [];
  readonly #files: Map<string, Buffer>;
  readonly #tricks: HubTrick[] = [];
  readonly #close: () => Promise<void>;

  private constructor(endpoint: string, files: Map<string, Buffer>, close: () => Promise<void>) {
    this.endpoint = endpoint;
    this.#files = files;
    this.#close = close;
  }

  static async start(): Promise<HubServer> {
    const files = new Map<string, Buffer>();
    const server = createServer((request, response) => hub.#answer(request, response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const hub = new HubServer(`http://127.0.0.1:${port}`, files, async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    return hub;
  }

  /** Publishes a file of a repository (`owner/name`) at a revision. */
  put(repository: string, path: string, bytes: Uint8Array, revision = "main"): void {
    this.#files.set(`/${repository}/resolve/${revision}/${path}`, Buffer.from(bytes));
  }

  /** Plays one trick for each of the next requests; later requests are served. */
  play(...tricks: readonly HubTrick[]): void {
    this.#tricks.push(...tricks);
  }

  close(): Promise<void> {
    return this.#close();
  }

  /** The API: the files of a repository, and the repositories that match words. */
  #api(path: string, query: URLSearchParams): object | null {
    const [, listed] = /^\/api\/models\/([^/]+\/[^/]+)\/revision\/main$/.exec(path) ?? [];
    const filesOf = (repository: string) =>
      [...this.#files].flatMap(([file, bytes]) => {
        const prefix = `/${repository}/resolve/main/`;
        if (!file.startsWith(prefix)) return [];
        const sha256 = createHash("sha256").update(bytes).digest("hex");
        return [{ rfilename: file.slice(prefix.length), lfs: { sha256, size: bytes.length, pointerSize: 134 } }];
      });
    if (listed !== undefined) {
      const siblings = filesOf(listed);
      return siblings.length === 0 ? null : { sha: hubCommit, siblings };
    }
    const repositories = new Set([...this.#files.keys()].map((file) => file.split("/").slice(1, 3).join("/")));
    const words = (query.get("search") ?? "").toLowerCase().split(" ");
    return [...repositories]
      .filter((id) => words.every((word) => id.toLowerCase().includes(word)))
      .map((id) => ({ id, downloads: 1234, likes: 5, tags: ["gguf", "license:mit"], siblings: filesOf(id) }));
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { range, authorization } = request.headers;
    const { pathname, searchParams } = new URL(request.url ?? "", this.endpoint);
    const path = decodeURIComponent(pathname).replace(`/${hubCommit}`, "/main");
    this.requests.push({ path, range, authorization });
    const trick = this.#tricks.shift() ?? "none";
    if (trick === "silence") return;
    if (typeof trick === "object" && "status" in trick) return void response.writeHead(trick.status).end();
    if (typeof trick === "object" && "redirectTo" in trick) {
      return void response.writeHead(302, { location: trick.redirectTo }).end();
    }
    if (path.startsWith("/api/models")) {
      const answer = this.#api(path, searchParams);
      if (answer === null) return void response.writeHead(404).end();
      return void response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    }
    const file = this.#files.get(path);
    if (!file) return void response.writeHead(404).end();
    serve(file, request, response, trick);
  }
}

type ServingTrick = Exclude<HubTrick, "silence" | { status: number } | { redirectTo: string }>;

function serve(file: Buffer, request: IncomingMessage, response: ServerResponse, trick: ServingTrick): void {
  const etag = `"${createHash("sha256").update(file).digest("hex")}"`;
  const start = trick === "no ranges" ? 0 : startOf(request, etag);
  if (start >= file.length) return void response.writeHead(416).end();
  const body = Buffer.from(file.subarray(start));
  if (trick === "wrong bytes") body[body.length - 1] = (body.at(-1) ?? 0) ^ 1;
  response.writeHead(start > 0 ? 206 : 200, {
    etag,
    ...(start > 0 ? { "content-range": `bytes ${start}-${file.length - 1}/${file.length}` } : {}),
    ...(trick === "no length" ? {} : { "content-length": body.length }),
  });
  if (typeof trick !== "object") return void response.end(body);
  if ("bytesPerSecond" in trick) return void sendSlowly(response, body, trick.bytesPerSecond);
  if ("stallAfterBytes" in trick) return void response.write(body.subarray(0, trick.stallAfterBytes));
  response.write(body.subarray(0, trick.cutAfterBytes), () => response.destroy());
}

const sendEveryMs = 50;

function sendSlowly(response: ServerResponse, body: Buffer, bytesPerSecond: number): void {
  const step = Math.ceil((bytesPerSecond * sendEveryMs) / 1_000);
  let sent = 0;
  const timer = setInterval(() => {
    response.write(body.subarray(sent, sent + step));
    sent += step;
    if (sent < body.length) return;
    clearInterval(timer);
    response.end();
  }, sendEveryMs);
  response.once("close", () => clearInterval(timer));
}

/** Start of the requested range; 0 without a range, or if the range is of another version. */
function startOf({ headers }: IncomingMessage, etag: string): number {
  if (headers["if-range"] !== undefined && headers["if-range"] !== etag) return 0;
  return Number(/^bytes=(\d+)-$/.exec(headers.range ?? "")?.[1] ?? 0);
}
