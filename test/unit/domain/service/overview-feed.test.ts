import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { SystemSchema } from "../../../../gen/unified/admin/v1/system_pb.js";
import { Ended } from "../../../../src/domain/call/call-context.js";
import { OverviewFeed, snapshotEveryMs } from "../../../../src/domain/service/service-status.js";
import { FakeClock } from "../../../support/fake-clock.js";

/** A feed over a service whose counters and latency the test sets; it counts the polls. */
function world() {
  const clock = new FakeClock();
  const at = { requests: 0n, latencyMs: 1.1, snapshots: 0 };
  const feed = new OverviewFeed({
    clock,
    status: {
      async read() {
        at.snapshots += 1;
        return create(SystemSchema, {
          now: timestampFromMs(clock.now()),
          state: { ok: true, latencyMs: at.latencyMs },
          counters: { requests: at.requests },
        });
      },
    },
  });
  return { clock, at, feed };
}

it("the feed yields a snapshot immediately, then each further one, and marks those with changes", async () => {
  const { clock, at, feed } = world();
  const watch = feed.watch(new AbortController().signal);
  expect((await watch.next()).value).toMatchObject({ hasChanged: true, system: { counters: { requests: 0n } } });
  const changes: boolean[] = [];
  for (const change of [() => {}, () => (at.requests = 1n), () => (at.latencyMs = 1.2), () => (at.latencyMs = 40)]) {
    const next = watch.next();
    change();
    await clock.advance(snapshotEveryMs);
    changes.push((await next).value?.hasChanged);
  }
  expect(changes).toEqual([false, true, false, true]);
});

it("the feed polls once for all watchers and never without one", async () => {
  const { clock, at, feed } = world();
  const watches = [1, 2, 3].map(() => feed.watch(new AbortController().signal));
  await Promise.all(watches.map((watch) => watch.next()));
  expect(at.snapshots).toBe(1);
  const next = Promise.all(watches.map((watch) => watch.next()));
  await clock.advance(snapshotEveryMs);
  await next;
  expect([at.snapshots, clock.pending]).toEqual([2, 1]);
  await Promise.all(watches.map((watch) => watch.return(undefined)));
  expect(clock.pending).toBe(0);
  await clock.advance(10 * snapshotEveryMs);
  expect(at.snapshots).toBe(2);
});

it("the feed sends a slow reader the latest snapshot with all changes since its last one", async () => {
  const { clock, at, feed } = world();
  const watch = feed.watch(new AbortController().signal);
  await watch.next();
  for (const requests of [1n, 2n, 2n]) {
    at.requests = requests;
    await clock.advance(snapshotEveryMs);
  }
  expect((await watch.next()).value).toMatchObject({ hasChanged: true, system: { counters: { requests: 2n } } });
  const next = watch.next();
  await clock.advance(snapshotEveryMs);
  expect((await next).value?.hasChanged).toBe(false);
});

it("a waiting watch of the feed ends when its call is aborted, with the reason of the abort", async () => {
  const { clock, feed } = world();
  const stop = new AbortController();
  const watch = feed.watch(stop.signal);
  await watch.next();
  const next = watch.next();
  stop.abort(new Ended("shutting_down"));
  await expect(next).rejects.toMatchObject({ code: "server_shutting_down" });
  expect(clock.pending).toBe(0);
});

it("the feed starts again for a new watcher after the last one has stopped", async () => {
  const { at, feed } = world();
  const first = feed.watch(new AbortController().signal);
  await first.next();
  await first.return(undefined);
  at.requests = 5n;
  const { value } = await feed.watch(new AbortController().signal).next();
  expect(value).toMatchObject({ hasChanged: true, system: { counters: { requests: 5n } } });
});
