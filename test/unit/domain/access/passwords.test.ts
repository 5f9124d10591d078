import { describe, expect, it } from "vitest";
import { Passwords } from "../../../../src/domain/access/administrator.js";

/** A hash function that counts its calls and finishes when the test resolves it. */
function createSlow() {
  const ends: (() => void)[] = [];
  let running = 0;
  let runningMax = 0;
  let compared: string[] = [];
  const slowly = async <T>(result: T): Promise<T> => {
    running += 1;
    runningMax = Math.max(runningMax, running);
    await new Promise<void>((resolve) => ends.push(resolve));
    running -= 1;
    return result;
  };
  const passwords = new Passwords({
    hashPassword: (password) => slowly(`kept ${password}`),
    isPassword: (password, kept) => {
      compared = [...compared, kept];
      return slowly(kept === `kept ${password}`);
    },
    noPassword: "kept nothing",
  });
  const endAll = async (): Promise<void> => {
    while (ends.length > 0) {
      ends.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { passwords, endAll, runningMax: () => runningMax, compared: () => compared };
}

describe("Passwords", () => {
  it("computes one hash at a time, queues 16 and rejects the others (KEY-21)", async () => {
    const { passwords, endAll, runningMax } = createSlow();
    const hashes = Array.from({ length: 20 }, (_, number) => passwords.hash(`password ${number}`));
    const settled = Promise.allSettled(hashes);
    await endAll();
    const outcomes = (await settled).map((outcome) =>
      outcome.status === "fulfilled" ? outcome.value : (outcome.reason as { code: string }).code,
    );
    expect(runningMax()).toBe(1);
    expect(outcomes.slice(0, 17)).toEqual(Array.from({ length: 17 }, (_, number) => `kept password ${number}`));
    expect(outcomes.slice(17)).toEqual(Array.from({ length: 3 }, () => "rate_limit_exceeded"));
  });

  it("also computes a hash if no password is stored, and never accepts one (KEY-21)", async () => {
    const { passwords, endAll, compared } = createSlow();
    const isRight = passwords.isRight("nothing", null);
    await endAll();
    expect(await isRight).toBe(false);
    expect(compared()).toEqual(["kept nothing"]);
  });
});
