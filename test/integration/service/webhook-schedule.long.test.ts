import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { FastTime } from "../../support/fast-time/fast-time.js";
import { needsInstalled } from "../../support/missing-program.js";
import { type AttemptRecord, type DeliveryRecord, type Driver, drivers, FollowedService } from "./followed-service.js";

const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
/** The documented default schedule, which this test does not configure. */
const waitsMs = [30 * secondMs, 2 * minuteMs, 10 * minuteMs, 30 * minuteMs, 2 * hourMs];

/**
 * Number of deliveries per service. Other work on the machine may delay one of them but rarely most, so the median
 * shows the service's own lateness.
 */
const eventCount = 5;
/** Maximum lateness of the worst delivery, as a multiple of the bound for the median. */
const worstFactor = 10;
/** At 60 times the speed, 6 s are a tenth of a second of real time. */
const atSixty = { speed: 60, lateMs: (waitMs: number) => Math.max(0.02 * waitMs, 6 * secondMs) };
const atFive = { speed: 5, lateMs: () => secondMs };
const speeds = [atSixty, atFive];
/** Time without any further attempt: longer than any delay of the schedule. */
const quietMs = 2.5 * hourMs;
const testMs = 700_000;

const root = mkdtempSync(join(tmpdir(), "uis-schedule-"));
const times: FastTime[] = [];
let starting: Promise<FollowedService[]> | null = null;
afterAll(async () => {
  const services = (await starting) ?? [];
  await Promise.all(services.map((each) => each.remove()));
  for (const time of times) time.end();
  rmSync(root, { recursive: true, force: true });
});

/** Starts all services together and before any event, because a start uses CPU time that would make attempts late. */
async function startAll(): Promise<FollowedService[]> {
  for (const { speed } of speeds) times.push(await FastTime.start(speed));
  return Promise.all(times.flatMap((time) => drivers.map((driver) => FollowedService.in(root, driver, time))));
}

async function follow(driver: Driver, speed: number): Promise<FollowedService> {
  starting ??= startAll();
  const service = (await starting).find((each) => each.driver === driver && each.time.speed === speed);
  if (service === undefined) throw new Error(`nothing was started for ${driver} at ${speed}`);
  await service.begin(eventCount);
  return service;
}

/** The records after the given number of scheduled attempts. */
function failed(service: FollowedService, attempts: number): Promise<DeliveryRecord[]> {
  const before = waitsMs.slice(0, attempts - 1);
  return service.failed(
    attempts,
    before.reduce((sum, waitMs) => sum + waitMs, 0),
  );
}

function endOf({ startedAt, latencyMs }: AttemptRecord): number {
  return Date.parse(startedAt) + Number(latencyMs);
}

/**
 * Lateness of the signature of one retry, in milliseconds, ascending. The signature's `t` is rounded down to the
 * second, so an exact retry can be -999.
 */
function latenesses(service: FollowedService, records: readonly DeliveryRecord[], retry: number): number[] {
  const late = records.flatMap((record) => {
    const before = record.attempts[retry - 1];
    const request = service.requestOf(record, retry + 1);
    if (before === undefined || request === null) return [];
    return service.signedAtMs(request) - (endOf(before) + (waitsMs[retry - 1] ?? 0));
  });
  return late.toSorted((a, b) => a - b);
}

/** Bounds the lateness of the median and of the worst of more than half of the deliveries. */
function expectOnTime(late: readonly number[], what: string, lateMs: number): void {
  expect(late.length, what).toBeGreaterThan(eventCount / 2);
  expect(late[0], what).toBeGreaterThan(-secondMs);
  expect(late[Math.floor(late.length / 2)], what).toBeLessThanOrEqual(lateMs);
  expect(late.at(-1), what).toBeLessThanOrEqual(worstFactor * lateMs);
}

/** The recorded end of an attempt is not earlier than the receiver's response. */
function expectTrueEnds(service: FollowedService, records: readonly DeliveryRecord[]): void {
  for (const record of records) {
    for (const attempt of record.attempts.filter(({ status }) => status === 500)) {
      const answeredAtMs = service.requestOf(record, attempt.number)?.answeredAtMs ?? 0;
      // The tolerance is less than the receiver's delay, so that the start of an attempt does not pass for its end.
      expect(endOf(attempt)).toBeGreaterThan(answeredAtMs - 2 * secondMs);
    }
  }
}

/** The highest attempt number that the receiver got. */
function attemptsSent(service: FollowedService): number {
  return Math.max(...service.requests.map(({ headers }) => Number(headers["service-attempt"])));
}

function needsFastTime(): void {
  needsInstalled("faketime");
  needsInstalled("gcc");
}

describe.concurrent("deliveries that always fail, with the default schedule", { timeout: testMs }, () => {
  it.for(drivers)(
    "%s, at 60 times the speed: six attempts are on time across three restarts, a seventh needs a manual retry (WH-25, WH-26, WH-27, WH-46, REL-13)",
    async (driver, context) => {
      needsFastTime();
      const service = await follow(driver, atSixty.speed);
      await failed(service, 3);
      await service.restart("stop");
      await failed(service, 4);
      await service.restart("kill");
      await failed(service, 5);
      await service.restartWithStore();
      const records = await failed(service, 6);
      const late = waitsMs.map((_, i) => latenesses(service, records, i + 1));
      await context.annotate(`${driver}, ms late: ${late.map((each) => each.join(" ")).join("; ")}`);
      expect(records).toHaveLength(eventCount);
      for (const record of records) {
        expect(record).toMatchObject({ state: "permanently_failed", reason: "retries_used_up", attemptsMade: 6 });
        expect(record.attempts.map(({ number, trigger }) => `${number} ${trigger}`)).toEqual(
          [1, 2, 3, 4, 5, 6].map((number) => `${number} schedule`),
        );
      }
      expectTrueEnds(service, records);
      for (const [i, waitMs] of waitsMs.entries()) {
        expectOnTime(late[i] ?? [], `${driver}, retry ${i + 1}`, atSixty.lateMs(waitMs));
      }

      await service.time.pass(quietMs);
      expect(await service.records()).toEqual(records);
      expect(attemptsSent(service)).toBe(6);

      const askedAtMs: number[] = [];
      for (const record of records) {
        askedAtMs.push(service.time.now());
        await service.retry(record);
      }
      const after = await service.failed(7);
      for (const record of after) {
        expect(record).toMatchObject({ state: "permanently_failed", reason: "manual_retry_failed", attemptsMade: 7 });
        expect(record.attempts.at(-1)).toMatchObject({ number: 7, trigger: "manual", by: "admin_token" });
      }
      const takenMs = after.flatMap((record, i) => {
        const request = service.requestOf(record, 7);
        return request === null ? [] : service.signedAtMs(request) - (askedAtMs[i] ?? 0);
      });
      expectOnTime(
        takenMs.toSorted((a, b) => a - b),
        `${driver}, by hand`,
        atSixty.lateMs(0),
      );
      await service.time.pass(quietMs);
      expect(await service.records()).toEqual(after);
      expect(attemptsSent(service)).toBe(7);
    },
  );

  it.for(drivers)(
    "%s, at 5 times the speed: the first two retries are on time to the second (WH-25, WH-26)",
    async (driver, context) => {
      needsFastTime();
      const service = await follow(driver, atFive.speed);
      const records = await failed(service, 3);
      const late = [1, 2].map((retry) => latenesses(service, records, retry));
      await context.annotate(`${driver}, ms late: ${late.map((each) => each.join(" ")).join("; ")}`);
      expectTrueEnds(service, records);
      for (const [i, each] of late.entries()) expectOnTime(each, `${driver}, retry ${i + 1}`, atFive.lateMs());
    },
  );
});
