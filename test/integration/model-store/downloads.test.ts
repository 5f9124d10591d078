import { mkdtemp, readFile, rm } from "node:fs/promises";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { defaultEmbeddingModel } from "../../../src/model-store/default-models.js";
import type { PullProgress } from "../../../src/model-store/puller.js";
import { eventually } from "../../support/eventually.js";
import type { HubRequest, HubServer } from "../../support/hub-server.js";
import { tinyEncoderFiles, writeTinyEncoder } from "../../support/model-files/tiny-encoder.js";
import { writeTinyGguf } from "../../support/model-files/tiny-gguf.js";
import { freshFolder, type OpenStore, openStore, startHub } from "./open-store.js";

const source = "hf:owner/repo/tiny.gguf@main";

const mebibyte = 1_048_576;
/** Maximum bytes that a reader may lose when its connection is cut: its buffer. */
const bufferedMax = mebibyte / 2;

/** A model file of several chunks. */
async function tinyModel(name = "tiny", dataBytes = mebibyte / 8) {
  const folder = await mkdtemp(join(tmpdir(), "uis-tiny-"));
  const written = await writeTinyGguf(join(folder, "tiny.gguf"), name, dataBytes / 4);
  const bytes = await readFile(join(folder, "tiny.gguf"));
  await rm(folder, { recursive: true });
  return { bytes, sha256: written.sha256 };
}

function startOf(request: HubRequest | undefined): number {
  return Number(/^bytes=(\d+)-$/.exec(request?.range ?? "")?.[1] ?? 0);
}

async function setUp(options: Parameters<typeof openStore>[0] = {}) {
  const hub = await startHub();
  const model = await tinyModel();
  hub.put("owner/repo", "tiny.gguf", model.bytes);
  return { hub, model, ...(await openStore({ hubEndpoint: hub.endpoint, ...options })) };
}

/** Aborts a pull that has received 60,000 bytes. */
async function interrupted(pull: OpenStore["pull"], hub: HubServer): Promise<void> {
  hub.play({ stallAfterBytes: 60_000 });
  const leaving = new AbortController();
  const onProgress = ({ receivedBytes }: PullProgress): void => {
    if (receivedBytes === 60_000) leaving.abort(new Error("left"));
  };
  await expect(pull(source, { signal: leaving.signal, onProgress })).rejects.toThrow("left");
}

describe("a pull from a hub", () => {
  it("is verified, stored under its checksum and listed with the metadata of its header", async () => {
    const { pull, store, leftovers, model } = await setUp();
    const progress: PullProgress[] = [];
    const pulled = await pull(source, { sha256: model.sha256, onProgress: (each) => progress.push(each) });
    expect(pulled.warnings).toEqual([]);
    expect(store.find("m")).toMatchObject({
      kind: "chat",
      name: "tiny",
      license: "apache-2.0",
      contextLength: 128,
      sha256: model.sha256,
      bytes: model.bytes.length,
      source,
    });
    expect(progress.at(-1)).toEqual({
      stage: "fetching",
      receivedBytes: model.bytes.length,
      totalBytes: model.bytes.length,
    });
    expect(await leftovers()).toEqual([`${model.sha256}.gguf`, "index.json"]);
    await store.verify(pulled.model);
  });

  it("resumes after the connection was cut", async () => {
    const { pull, hub, leftovers } = await setUp();
    const model = await tinyModel("large", 4 * mebibyte);
    hub.put("owner/repo", "tiny.gguf", model.bytes);
    hub.play({ cutAfterBytes: 2 * mebibyte });
    await pull(source, { sha256: model.sha256 });
    expect(hub.requests).toHaveLength(2);
    expect(startOf(hub.requests[1])).toBeGreaterThanOrEqual(2 * mebibyte - bufferedMax);
    expect(startOf(hub.requests[1])).toBeLessThanOrEqual(2 * mebibyte);
    expect(await leftovers()).toEqual([`${model.sha256}.gguf`, "index.json"]);
  });

  it("resumes an earlier pull, and the checksum covers both parts", async () => {
    const { pull, hub, leftovers, model } = await setUp();
    await interrupted(pull, hub);
    expect(await leftovers()).toEqual([
      expect.stringMatching(/^[0-9a-f]{16}\.part$/),
      expect.stringMatching(/\.part\/model\.gguf\.etag$/),
      expect.stringMatching(/\.part\/model\.gguf\.part$/),
    ]);
    const { model: kept } = await pull(source);
    expect(hub.requests[1]?.range).toBe("bytes=60000-");
    expect(kept.sha256).toBe(model.sha256);
    expect(await leftovers()).toEqual([`${model.sha256}.gguf`, "index.json"]);
  });

  it("starts again if the file has changed since the interruption", async () => {
    const { pull, hub, store } = await setUp();
    await interrupted(pull, hub);
    const changed = await tinyModel("another");
    hub.put("owner/repo", "tiny.gguf", changed.bytes);
    await pull(source);
    expect(store.find("m")).toMatchObject({ name: "another", sha256: changed.sha256 });
  });

  it("starts again at a server without range requests", async () => {
    const { pull, hub, model, store } = await setUp();
    hub.play({ cutAfterBytes: 50_000 }, "no ranges");
    await pull(source, { sha256: model.sha256 });
    expect(store.find("m")?.sha256).toBe(model.sha256);
  });

  it("continues after many interruptions and a host that did not answer, as long as it receives some data", async () => {
    const { pull, hub, store } = await setUp({ stallTimeoutMs: 1_000 });
    const large = await tinyModel("large", 14 * mebibyte);
    hub.put("owner/repo", "tiny.gguf", large.bytes);
    hub.play(...Array.from({ length: 12 }, () => ({ cutAfterBytes: mebibyte })), { stallAfterBytes: 1_000 }, "silence");
    await pull(source);
    expect(store.find("m")?.sha256).toBe(large.sha256);
    expect(hub.requests).toHaveLength(15);
    const starts = hub.requests.map(startOf);
    expect(starts).toEqual([...starts].sort((a, b) => a - b));
  });

  it("fails after nine attempts in a row that receive nothing, and keeps the bytes received", async () => {
    const { pull, hub, leftovers } = await setUp();
    hub.put("owner/repo", "tiny.gguf", (await tinyModel("large", 4 * mebibyte)).bytes);
    hub.play({ cutAfterBytes: 2 * mebibyte }, ...Array.from({ length: 9 }, () => ({ cutAfterBytes: 0 })));
    await expect(pull(source)).rejects.toMatchObject({
      name: "SourceUnavailable",
      message: expect.stringContaining("cuts the connection repeatedly"),
    });
    expect(hub.requests).toHaveLength(10);
    expect(await leftovers()).toHaveLength(3);
  });

  it("rejects a file that does not have the expected checksum, and stores nothing (SEC-25)", async () => {
    const { pull, hub, leftovers, store, model } = await setUp();
    hub.play("wrong bytes");
    await expect(pull(source, { sha256: model.sha256 })).rejects.toMatchObject({
      name: "ModelFileError",
      fault: "checksum",
      message: expect.stringContaining(model.sha256),
    });
    expect(store.list()).toEqual([]);
    expect(await leftovers()).toEqual([]);
  });

  it("records the checksum of the first pull if none is given, and requires it later", async () => {
    const { pull, hub, store } = await setUp();
    await pull(source);
    await store.remove("m");
    hub.put("owner/repo", "tiny.gguf", (await tinyModel("another")).bytes);
    await expect(pull(source)).rejects.toMatchObject({ name: "ModelFileError", fault: "checksum" });
  });

  it("refuses a file that is not a GGUF and leaves no files (SEC-25)", async () => {
    const { pull, hub, leftovers } = await setUp();
    hub.put("owner/repo", "page.gguf", Buffer.from("<html>please log in</html>"));
    await expect(pull("hf:owner/repo/page.gguf")).rejects.toMatchObject({ fault: "malformed" });
    expect(await leftovers()).toEqual([]);
  });

  it.each([401, 403, 404, 407, 429, 503])(
    "fails with SourceUnavailable after a response with status %i, and stores nothing",
    async (status) => {
      const { pull, hub, leftovers } = await setUp();
      hub.play({ status });
      await expect(pull(source)).rejects.toMatchObject({ name: "SourceUnavailable", status });
      expect(await leftovers()).toEqual([]);
    },
  );

  it("fails with SourceUnavailable if the hub never answers, refuses connections or has no address", async () => {
    const { pull, hub, leftovers } = await setUp({ stallTimeoutMs: 100 });
    hub.play("silence");
    await expect(pull(source)).rejects.toMatchObject({ name: "SourceUnavailable" });
    await hub.close();
    await expect(pull(source)).rejects.toMatchObject({
      name: "SourceUnavailable",
      message: expect.stringContaining("cannot be reached"),
    });
    const nowhere = await openStore({ hubEndpoint: "https://hub.invalid" });
    await expect(nowhere.pull(source)).rejects.toMatchObject({ name: "SourceUnavailable" });
    expect(await leftovers()).toEqual([]);
  });

  it("fails within the connect timeout if the hub does not speak TLS", async () => {
    const mute = createServer(() => {});
    await new Promise<void>((resolve) => mute.listen(0, "127.0.0.1", resolve));
    const address = mute.address() as { port: number };
    const { pull } = await openStore({ hubEndpoint: `https://127.0.0.1:${address.port}`, connectTimeoutMs: 300 });
    await expect(pull(source)).rejects.toMatchObject({ name: "SourceUnavailable" });
    mute.close();
  });

  it("does not download a file without a content length", async () => {
    const { pull, hub, leftovers } = await setUp();
    hub.play("no length");
    await expect(pull(source)).rejects.toMatchObject({ message: expect.stringContaining("how long") });
    expect(await leftovers()).toEqual([]);
  });

  it("sends the token to the hub and never to the target of a redirect", async () => {
    const { pull, hub, model } = await setUp({ hubToken: "secret" });
    const store = await startHub();
    store.put("owner/repo", "tiny.gguf", model.bytes);
    hub.play({ redirectTo: `${store.endpoint}/owner/repo/resolve/main/tiny.gguf` });
    await pull(source, { sha256: model.sha256 });
    expect(hub.requests.map(({ authorization }) => authorization)).toEqual(["Bearer secret"]);
    expect(store.requests.map(({ authorization }) => authorization)).toEqual([undefined]);
  });

  it("follows at most five redirects, and none to a host without TLS", async () => {
    const { pull, hub } = await setUp();
    const again = { redirectTo: `${hub.endpoint}/owner/repo/resolve/main/tiny.gguf` };
    hub.play(again, again, again, again, again);
    await pull(source);
    hub.play(again, again, again, again, again, again);
    await expect(pull("hf:owner/repo/tiny.gguf@v2", {})).rejects.toMatchObject({ name: "SourceUnavailable" });
    hub.play({ redirectTo: "http://192.0.2.1/tiny.gguf" });
    await expect(pull("hf:owner/repo/tiny.gguf@v3")).rejects.toThrow("not encrypted");
  });

  it("shares its download with a second pull of the same model, and each stores its own id", async () => {
    const { pull, hub, store } = await setUp();
    await Promise.all([pull(source, { id: "a" }), pull(source, { id: "b" })]);
    expect(hub.requests).toHaveLength(1);
    expect(
      store
        .list()
        .map(({ id }) => id)
        .sort(),
    ).toEqual(["a", "b"]);
  });

  it("rejects immediately if it is aborted, while another pull that shares the download continues", async () => {
    const { pull, hub, store, leftovers } = await setUp();
    hub.play({ stallAfterBytes: 60_000 });
    const leaving = new AbortController();
    const staying = new AbortController();
    const left = pull(source, { signal: leaving.signal });
    let received = 0;
    const onProgress = ({ receivedBytes }: PullProgress) => {
      received = receivedBytes;
    };
    const stayed = pull(source, { signal: staying.signal, onProgress });
    await eventually(() => received === 60_000, "60,000 bytes");
    leaving.abort(new Error("left"));
    await expect(left).rejects.toThrow("left");
    staying.abort(new Error("left, too"));
    await expect(stayed).rejects.toThrow("left, too");
    expect(store.list()).toEqual([]);
    expect((await leftovers()).filter((name) => name.includes(".work"))).toEqual([]);
    await pull(source);
    expect(startOf(hub.requests[1])).toBe(60_000);
  });

  it("does not fetch a stored model again, and works without a network then", async () => {
    const { pull, hub, model } = await setUp();
    await pull(source);
    await hub.close();
    await expect(pull(source)).resolves.toMatchObject({ model: { sha256: model.sha256 } });
    await expect(pull(source, { id: "other" })).resolves.toMatchObject({ model: { id: "other" } });
  });
});

describe("other outcomes of a pull", () => {
  it("in offline mode no request is sent, and the error states the reason", async () => {
    const { pull, hub } = await setUp({ offline: true });
    for (const each of [source, `${hub.endpoint}/x.gguf`, "pypi:a==1/b.gguf"]) {
      await expect(pull(each)).rejects.toMatchObject({
        name: "SourceUnavailable",
        message: expect.stringContaining("UIS_OFFLINE"),
      });
    }
    expect(hub.requests).toEqual([]);
  });

  it("an address is fetched with a warning if no checksum is given", async () => {
    const { pull, hub, model, store } = await setUp();
    const address = `${hub.endpoint}/owner/repo/resolve/main/tiny.gguf`;
    const first = await pull(`${address}?signature=secret`);
    expect(first.warnings).toEqual([expect.stringContaining("without a SHA-256")]);
    expect(store.find("m")?.source).toBe(address);
    expect(await pull(address, { id: "n", sha256: model.sha256 })).toMatchObject({ warnings: [] });
  });

  it("with too little disk space the error states the needed and the free bytes, and no files are left", async () => {
    const { pull, leftovers, model } = await setUp({ freeBytes: async () => 1_000 });
    await expect(pull(source)).rejects.toMatchObject({
      fault: "no_space",
      message: expect.stringMatching(new RegExp(`${model.bytes.length} bytes are needed .* 1000 are free`)),
    });
    expect(await leftovers()).toEqual([]);
  });

  it("a proxy that cannot be reached makes the source unavailable", async () => {
    const { pull } = await openStore({ hubEndpoint: "https://hub.invalid", httpsProxy: "http://127.0.0.1:9" });
    await expect(pull(source)).rejects.toMatchObject({ name: "SourceUnavailable" });
  });

  it("a proxy that requires a login makes the source unavailable, and one that tunnels is used", async () => {
    const { hub, model } = await setUp();
    const asked: string[] = [];
    let refuses = true;
    const proxy = createServer((client) => {
      client.once("data", (head) => {
        asked.push(head.toString("latin1").split("\r\n")[0] ?? "");
        if (refuses) return void client.end("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n");
        const target = connect(Number(new URL(hub.endpoint).port), "127.0.0.1", () => {
          client.write("HTTP/1.1 200 OK\r\n\r\n");
          client.pipe(target).pipe(client);
        });
        target.on("error", () => client.destroy());
      });
      client.on("error", () => client.destroy());
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void proxy.close());
    const { port } = proxy.address() as AddressInfo;
    const host = new URL(hub.endpoint).host;
    const proxied = { hubEndpoint: hub.endpoint, httpProxy: `http://127.0.0.1:${port}` };
    const { pull } = await openStore(proxied);
    await expect(pull(source)).rejects.toMatchObject({ name: "SourceUnavailable" });
    refuses = false;
    await expect(pull(source)).resolves.toMatchObject({ model: { sha256: model.sha256 } });
    expect(asked).toEqual([`CONNECT ${host} HTTP/1.1`, `CONNECT ${host} HTTP/1.1`]);
    const direct = await openStore({ ...proxied, noProxy: "127.0.0.1" });
    await direct.pull(source);
    expect(asked).toHaveLength(2);
  });
});

describe("an encoder on a hub", () => {
  const encoder = "hf:owner/encoder@v1";

  it("is fetched file by file and converted to the same file as its folder", async () => {
    const hub = await startHub();
    const { "vocab.txt": vocab, ...files } = tinyEncoderFiles();
    for (const [name, bytes] of Object.entries(files)) hub.put("owner/encoder", name, bytes, "v1");
    const words = vocab?.toString().trimEnd().split("\n") ?? [];
    const tokenizer = { model: { vocab: Object.fromEntries(words.map((word, id) => [word, id])) } };
    hub.put("owner/encoder", "tokenizer.json", Buffer.from(JSON.stringify(tokenizer)), "v1");
    const { pull, puller, store, leftovers } = await openStore({ hubEndpoint: hub.endpoint });
    await pull(encoder);
    const folder = join(await freshFolder(), "encoder");
    await writeTinyEncoder(folder);
    await puller.importFile(folder, "imported", new AbortController().signal);
    expect(store.find("m")).toMatchObject({ kind: "embedding", source: encoder });
    expect(store.find("m")?.sha256).toBe(store.find("imported")?.sha256);
    expect(await leftovers()).toHaveLength(2);
  });

  it("is rejected if a file has another checksum than expected, and its next source is not tried", async () => {
    const hub = await startHub();
    const revision = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41";
    hub.put("sentence-transformers/all-MiniLM-L6-v2", "config.json", Buffer.from("x".repeat(612)), revision);
    const { puller, leftovers } = await openStore({ hubEndpoint: hub.endpoint, pipEnvironment: {} });
    const pulled = puller.pullDefault(defaultEmbeddingModel, () => {}, new AbortController().signal);
    await expect(pulled).rejects.toMatchObject({ name: "ModelFileError", fault: "checksum" });
    expect(hub.requests).toHaveLength(1);
    expect(await leftovers()).toEqual([]);
  });

  it("is requested from the next sources if the hub refuses it, and the error has the reason of each source", async () => {
    const hub = await startHub();
    hub.play({ status: 403 });
    const { puller } = await openStore({ hubEndpoint: hub.endpoint, pipEnvironment: {} });
    const pulled = puller.pullDefault(defaultEmbeddingModel, () => {}, new AbortController().signal);
    await expect(pulled).rejects.toMatchObject({
      name: "SourceUnavailable",
      message: expect.stringMatching(/answered 403 .*; there is no pip [^;]*$/),
    });
  });
});
