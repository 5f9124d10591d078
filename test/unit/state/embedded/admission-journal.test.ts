import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  AdmissionJournal,
  createRunningRequests,
  readAdmissionJournal,
} from "../../../../src/state/embedded/database/running-requests.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { silentLog } from "../../../support/silent-log.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "uis-journal-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const row = (number: number) => ({
  requestId: `req_${number}`,
  account: "a",
  keyId: null,
  model: "m".repeat(200),
  operation: "create_chat_completion" as const,
  admittedAtMs: number,
  promptTokens: 1,
  completionTokens: 0,
});
const ids = () => readAdmissionJournal(folder).rows.map(({ requestId }) => requestId);

describe("AdmissionJournal", () => {
  it("keeps its entries after a kill of the process (USE-13)", () => {
    const journal = new AdmissionJournal(folder, () => 0, silentLog);
    journal.note([row(1)]);
    journal.note([row(2)]);
    expect(readAdmissionJournal(folder)).toEqual({ rows: [row(1), row(2)], unreadable: 0 });
    journal.close();
    expect(readdirSync(folder)).toEqual([]);
  });

  it("skips a line that is incomplete because the process was killed (USE-13)", () => {
    new AdmissionJournal(folder, () => 0, silentLog).note([row(1)]);
    appendFileSync(join(folder, "uis.live-a"), '{"requestId":"req_2","acc');
    expect(ids()).toEqual(["req_1"]);
  });

  it.each([
    ["a block of zeros", `${"\0".repeat(4096)}\n`],
    ["a line that is not JSON", "what is this\n"],
    ["a value that is not a row", "null\n"],
    ["a line joined to a part of another", '{"requestId":"req_8","acc{"requestId":"req_9"}\n'],
  ])("skips and counts %s, and reads the lines around it (E-20)", (_, damage) => {
    const journal = new AdmissionJournal(folder, () => 0, silentLog);
    journal.note([row(1)]);
    appendFileSync(join(folder, "uis.live-a"), damage);
    journal.note([row(2)]);
    expect(readAdmissionJournal(folder)).toEqual({ rows: [row(1), row(2)], unreadable: 1 });
  });

  it("skips a line with changed bytes (E-20)", () => {
    const journal = new AdmissionJournal(folder, () => 0, silentLog);
    journal.note([row(1)]);
    journal.note([row(2)]);
    const file = join(folder, "uis.live-a");
    writeFileSync(file, readFileSync(file, "utf8").replace('"req_2"', '"req_3"'));
    expect(readAdmissionJournal(folder)).toEqual({ rows: [row(1)], unreadable: 1 });
  });

  it("reads the lines of version 0.1, which have no checksum (E-20)", () => {
    writeFileSync(join(folder, "uis.live-b"), `${JSON.stringify(row(1))}\n`);
    expect(readAdmissionJournal(folder)).toEqual({ rows: [row(1)], unreadable: 0 });
  });

  it("stays small and keeps all entries of the last ten seconds", () => {
    const clock = new FakeClock();
    const journal = new AdmissionJournal(folder, () => clock.monotonic(), silentLog);
    const perSecond = 500;
    for (let second = 0; second < 60; second++) {
      for (let i = 0; i < perSecond; i++) journal.note([row(second * perSecond + i)]);
      clock.advance(1_000);
      if (second % 4 !== 3) continue;
      const kept = new Set(ids());
      for (let back = 0; back < Math.min(10, second + 1) * perSecond; back += 97) {
        expect(kept.has(`req_${(second + 1) * perSecond - 1 - back}`)).toBe(true);
      }
    }
    const bytes = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
    expect(bytes).toBeLessThan(5 * 1024 * 1024);
    journal.close();
  });
});

describe("running requests", () => {
  const begin = () => {
    const carried: string[] = [];
    const journal = new AdmissionJournal(folder, () => 0, silentLog);
    const link = {
      carry: ({ requestId }: { readonly requestId: string }) => void carried.push(requestId),
      uncarry: (requestId: string) => carried.includes(requestId),
      nudge() {},
    };
    return { running: createRunningRequests({ link, journal, clock: new FakeClock() }), carried };
  };

  it("are in the journal at the end of the turn in which they were admitted (USE-13)", async () => {
    const { running, carried } = begin();
    running.begin(row(1));
    running.begin(row(2));
    await new Promise((resolve) => setImmediate(resolve));
    expect(ids()).toEqual(["req_1", "req_2"]);
    expect(carried).toEqual(["req_1", "req_2"]);
  });

  it("are in the journal before the answer to one of them begins (USE-13)", () => {
    const { running } = begin();
    running.begin(row(1));
    running.record();
    expect(ids()).toEqual(["req_1"]);
  });

  it("leave no record if they are settled in the turn of their admission", async () => {
    const { running, carried } = begin();
    running.begin(row(1));
    expect(running.end("req_1")).toBe(true);
    await new Promise((resolve) => setImmediate(resolve));
    expect([ids(), carried]).toEqual([[], []]);
  });
});
