import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { TwoWorkers, type WorkerState } from "../../support/fleet/two-workers.js";

const models = [
  { id: "four", engine: "scripted", scripted: { text: "tick", tokens: 4 } },
  { id: "held", engine: "scripted", scripted: { text: "tick", hang_after_tokens: 1 } },
];
let two: TwoWorkers;

beforeEach(async () => {
  two = await TwoWorkers.start({ models });
});
afterEach(() => two.remove());

const areReady = (workers: readonly WorkerState[]) =>
  workers.length === 2 && workers.every(({ state }) => state === "ready");
const hasEnded = (pid: number): boolean => {
  try {
    return !process.kill(pid, 0);
  } catch {
    return true;
  }
};

it("crashed workers are replaced, /ready counts the workers, and the fifth crash ends the service (REL-28)", async () => {
  const key = await two.newKey("crashes");
  const ended = () => two.service.logs().filter(({ msg }) => msg === "a worker ended unexpectedly");

  const both = await two.workers();
  for (const { pid } of both) process.kill(pid, "SIGKILL");
  await eventually(async () => (await two.ready()).status === 503, "not ready without a worker");
  expect((await two.ready()).detail).toMatchObject({ workers: { ready: 0, count: 2 } });
  await eventually(async () => areReady(await two.workers()), "both workers are replaced");
  expect(await two.ready()).toMatchObject({ status: 200, detail: { workers: { ready: 2, count: 2 } } });

  for (let crash = 3; crash <= 4; crash += 1) {
    const [first] = await two.workers();
    process.kill(first?.pid ?? 0, "SIGKILL");
    await eventually(() => ended().length === crash, "the crash is logged");
    const { status, detail } = await two.ready();
    expect({ status, detail }).toMatchObject({ status: 200, detail: { workers: { ready: 1, count: 2 } } });
    expect((await two.chat(key, "four")).status).toBe(200);
    await eventually(async () => areReady(await two.workers()), "the worker is replaced");
  }
  expect(ended().map(({ replaced_in_ms: ms }) => ms)).toEqual([0, 250, 500, 1_000]);
  for (const line of ended()) expect(line).toMatchObject({ level: "warn", ended: "by SIGKILL" });
  expect(await two.service.debugState()).toMatchObject({ workers_replaced: 4 });
  const replaced = () => two.service.logs().filter(({ msg }) => msg === "a worker was replaced");
  await eventually(() => replaced().length === 4, "every replacement is logged");

  const [first] = await two.workers();
  process.kill(first?.pid ?? 0, "SIGKILL");
  expect(await two.service.exited).toBe(1);
  expect(ended().at(-1)).toMatchObject({ level: "error", worker: 1, ended: "by SIGKILL" });
  expect(two.service.stderr()).toMatch(/the workers crashed 5 times within 5 minutes: the service ends/);
});

it("a connection that a killed worker had not yet accepted is answered by the other worker (REL-28)", async () => {
  const key = await two.newKey("handed-over");
  const [first] = await two.workers();
  const pid = first?.pid ?? 0;
  // A suspended worker accepts no connection. Connections are handed to the workers in turn.
  process.kill(pid, "SIGSTOP");
  const answers = [two.chat(key, "four"), two.chat(key, "four"), two.chat(key, "four")];
  await Promise.race(answers);
  process.kill(pid, "SIGKILL");
  for (const { status } of await Promise.all(answers)) expect(status).toBe(200);
});

it("a second stop signal immediately ends the first process and all workers with exit code 1 (REL-10, REL-27)", async () => {
  const key = await two.newKey("held");
  const pids = (await two.workers()).map(({ pid }) => pid);
  const streams = Array.from({ length: 4 }, () => two.chat(key, "held", true));
  await eventually(async () => (await two.service.debugState()).requests.running === 4, "four running streams");
  two.service.child.kill("SIGTERM");
  await eventually(() => two.service.logs().filter(({ msg }) => msg === "stopping").length === 2, "both workers drain");
  expect(await two.ready()).toMatchObject({ status: 503, detail: { status: "draining" } });
  const fromMs = performance.now();
  two.service.child.kill("SIGTERM");
  expect(await two.service.exited).toBe(1);
  // Running requests could finish for two minutes.
  expect(performance.now() - fromMs).toBeLessThan(10_000);
  expect(two.service.logs().map(({ msg }) => msg)).toContain("exiting immediately after a second signal");
  await eventually(() => pids.every(hasEnded), "no worker remains");
  for (const { fault } of await Promise.all(streams)) expect(fault).toBe("ECONNRESET");
});
