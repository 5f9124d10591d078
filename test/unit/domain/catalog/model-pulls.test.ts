import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { ModelPulls } from "../../../../src/domain/catalog/model-pulls.js";
import type {
  PulledModel,
  PullProgress,
  PullRequest,
  StoredModel,
} from "../../../../src/domain/catalog/model-store.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { silentLog } from "../../../support/silent-log.js";

interface Download {
  readonly request: PullRequest;
  readonly signal: AbortSignal;
  report(progress: PullProgress): void;
  end(): void;
  fail(error: Error): void;
}

const never = new AbortController().signal;

/** Pulls whose downloads are ended by the test. */
function setUp() {
  const downloads: Download[] = [];
  const loaded: string[] = [];
  let unfinished: readonly PullRequest[] = [];
  const clock = new FakeClock();
  const store = {
    idOf: (source: string) => source.slice(3),
    shownSource: (source: string) => source,
    unfinishedPulls: {
      read: async () => unfinished,
      write: async (requests: readonly PullRequest[]) => {
        unfinished = requests;
      },
    },
    pull: (request: PullRequest, report: (progress: PullProgress) => void, signal: AbortSignal) =>
      new Promise<PulledModel>((resolve, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
        const model = { id: request.id ?? "" } as StoredModel;
        downloads.push({ request, signal, report, end: () => resolve({ model, warnings: [] }), fail: reject });
      }),
  };
  const open = () => new ModelPulls({ store, clock, log: silentLog });
  const after = async ({ model }: PulledModel): Promise<void> => void loaded.push(model.id);
  return { pulls: open(), open, downloads, loaded, clock, after, unfinished: () => unfinished };
}

const request = (id: string): PullRequest => ({ source: `hf:${id}`, id, sha256: null });
const statesOf = (pulls: ModelPulls) => pulls.list().map(({ id, state }) => `${id} ${state}`);

describe("pulls", () => {
  it("continue when their caller leaves, and load the model", async () => {
    const { pulls, downloads, loaded, after } = setUp();
    const caller = new AbortController();
    const pull = pulls.start(request("a"), after);
    const followed = pull.follow(() => {}, caller.signal);
    caller.abort(new Error("the caller has left"));
    await expect(followed).rejects.toThrow();
    expect(downloads[0]?.signal.aborted).toBe(false);
    downloads[0]?.end();
    await pull.ended;
    expect(loaded).toEqual(["a"]);
    expect(statesOf(pulls)).toEqual(["a succeeded"]);
  });

  it("are shared by callers with the same request; another source for the same model is a conflict", async () => {
    const { pulls, downloads, after } = setUp();
    const both = [pulls.start(request("a"), after), pulls.start(request("a"), after)];
    expect(downloads).toHaveLength(1);
    expect(() => pulls.start({ ...request("a"), source: "hf:other" }, after)).toThrow("from another source");
    const followed = both.map((pull) => pull.follow(() => {}, never));
    downloads[0]?.end();
    expect((await Promise.all(followed)).map(({ model }) => model.id)).toEqual(["a", "a"]);
  });

  it("are at most 16 at a time", () => {
    const { pulls, after } = setUp();
    for (let i = 0; i < 16; i++) pulls.start(request(`m${i}`), after);
    expect(() => pulls.start(request("one-more"), after)).toThrow("16 pulls run already");
    expect(pulls.list()).toHaveLength(16);
  });

  it("show bytes and rate, and the cause of a failure", async () => {
    const { pulls, downloads, clock, after } = setUp();
    const pull = pulls.start(request("a"), after);
    downloads[0]?.report({ receivedBytes: 1_000, totalBytes: 9_000 });
    expect(pulls.list()[0]).toMatchObject({ receivedBytes: 1_000, totalBytes: 9_000, bytesPerSecond: null });
    clock.advance(2_000);
    downloads[0]?.report({ receivedBytes: 5_000, totalBytes: 9_000 });
    expect(pulls.list()[0]).toMatchObject({ bytesPerSecond: 2_000, endedAtMs: null });
    downloads[0]?.fail(new ServiceError("upstream_error", "the hub is gone"));
    await pull.ended;
    expect(pulls.list()[0]).toMatchObject({ state: "failed", problem: "the hub is gone", endedAtMs: clock.now() });
    await expect(pull.follow(() => {}, never)).rejects.toThrow("the hub is gone");
  });

  it("are not listed if they were rejected before they downloaded anything", async () => {
    const { pulls, downloads, after } = setUp();
    const pull = pulls.start(request("a"), after);
    downloads[0]?.fail(new ServiceError("invalid_value", "no such form of a source"));
    await pull.ended;
    expect(pulls.list()).toEqual([]);
  });

  it("end when they are cancelled, with the downloads for loading the same model", async () => {
    const { pulls, downloads, after } = setUp();
    const pull = pulls.start(request("a"), after);
    const download = pulls.download(request("a"), () => {}, never);
    const [cancelled] = await Promise.all([pulls.cancel("a"), expect(download).rejects.toThrow("was cancelled")]);
    expect(cancelled).toMatchObject({ id: "a", state: "cancelled", problem: null });
    expect(downloads.map(({ signal }) => signal.aborted)).toEqual([true, true]);
    await expect(pull.follow(() => {}, never)).rejects.toThrow("was cancelled");
    await expect(pulls.cancel("a")).rejects.toThrow("No pull of the model 'a' is running");
  });

  it("that a stop interrupts are resumed by the next process; cancelled and finished ones are not", async () => {
    const { pulls, open, downloads, loaded, after, unfinished } = setUp();
    for (const id of ["a", "b", "c"]) pulls.start(request(id), after);
    downloads[1]?.end();
    await pulls.cancel("c");
    await expect.poll(unfinished).toEqual([request("a")]);
    await pulls.close();
    expect(unfinished()).toEqual([request("a")]);

    const next = open();
    await next.resume(after);
    await setImmediate();
    expect(statesOf(next)).toEqual(["a downloading"]);
    downloads.at(-1)?.end();
    await expect.poll(unfinished).toEqual([]);
    expect(loaded).toEqual(["b", "a"]);
  });

  it("list the last 20 that ended, newest first", async () => {
    const { pulls, downloads, after } = setUp();
    for (let i = 0; i < 22; i++) {
      const pull = pulls.start(request(`m${i}`), after);
      downloads.at(-1)?.end();
      await pull.ended;
    }
    pulls.start(request("running"), after);
    expect(pulls.list()).toHaveLength(21);
    expect(pulls.list()[1]?.id).toBe("m21");
  });
});
