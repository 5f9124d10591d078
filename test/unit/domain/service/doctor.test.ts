import { expect, it } from "vitest";
import { type Finding, oneAtATime } from "../../../../src/domain/service/service-status.js";

const finding: Finding = { check: "node", status: "ok", detail: "Node 24.14.1", fix: null };

it("oneAtATime shares one run of the checks among concurrent callers and runs them again for later ones", async () => {
  let runs = 0;
  let finish = (): void => {};
  const doctor = oneAtATime(async () => {
    runs += 1;
    await new Promise<void>((resolve) => {
      finish = resolve;
    });
    return [finding];
  });
  const both = [doctor(), doctor()];
  expect(runs).toBe(1);
  finish();
  expect(await Promise.all(both)).toEqual([[finding], [finding]]);
  const later = doctor();
  finish();
  await later;
  expect(runs).toBe(2);
});

it("oneAtATime runs the checks again after they have failed", async () => {
  let runs = 0;
  const doctor = oneAtATime(() => {
    runs += 1;
    return runs === 1 ? Promise.reject(new Error("a fault")) : Promise.resolve([finding]);
  });
  await expect(doctor()).rejects.toThrow("a fault");
  expect(await doctor()).toEqual([finding]);
});
