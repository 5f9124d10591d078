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
  it("compares one password at a time, queues 16 of unknown callers and rejects further ones (KEY-21)", async () => {
    const { passwords, endAll, runningMax } = createSlow();
    const checks = Array.from({ length: 20 }, (_, number) =>
      passwords.isRight(`password ${number}`, "kept one", false),
    );
    const settled = Promise.allSettled(checks);
    await endAll();
    const outcomes = (await settled).map((outcome) =>
      outcome.status === "fulfilled" ? outcome.value : (outcome.reason as { code: string }).code,
    );
    expect(runningMax()).toBe(1);
    expect(outcomes.slice(0, 17)).toEqual(Array.from({ length: 17 }, () => false));
    expect(outcomes.slice(17)).toEqual(Array.from({ length: 3 }, () => "rate_limit_exceeded"));
  });

  it("checks known callers before unknown ones that wait, and never rejects them (E-13)", async () => {
    const { passwords, endAll } = createSlow();
    const order: string[] = [];
    const check = (name: string, isKnown: boolean) =>
      passwords.isRight(name, "kept one", isKnown).then(
        () => order.push(name),
        () => order.push(`${name} rejected`),
      );
    const checks = Array.from({ length: 18 }, (_, number) => check(`unknown ${number}`, false));
    checks.push(check("known", true));
    await endAll();
    await Promise.all(checks);
    expect(order.slice(0, 3)).toEqual(["unknown 17 rejected", "unknown 0", "known"]);
  });

  it("computes a hash even if no password is stored, and then accepts no password (KEY-21)", async () => {
    const { passwords, endAll, compared } = createSlow();
    const isRight = passwords.isRight("nothing", null, false);
    await endAll();
    expect(await isRight).toBe(false);
    expect(compared()).toEqual(["kept nothing"]);
  });
});
