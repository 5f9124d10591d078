import { describe, expect, it } from "vitest";
import { Ended } from "../../../../src/domain/call/call-context.js";
import { runInShare } from "../../../../src/domain/call/fair-shares.js";
import { nobody, type Principal, tokenAdministrator } from "../../../../src/domain/call/principal.js";
import { unlimited } from "../../../../src/domain/call/rate-limits.js";
import { AbortSource } from "../../../../src/lib/abort-source.js";
import { FairShare } from "../../../../src/lib/fair-share.js";

const never = new AbortSource();
const keyOf = (account: string): Principal => ({
  kind: "api_key",
  keyId: `key of ${account}`,
  account,
  scope: "read",
  models: [],
  limits: unlimited,
});
const caller = (principal: Principal, address = "192.0.2.1") => ({ principal, address });

/** A resource of which each owner may use one unit, with tasks that run until the test ends. */
function shareOfOne(waitingMax: number) {
  const share = new FairShare({ capacity: 100, accountMax: 1, contendedMax: 1, waitingMax });
  const begun: string[] = [];
  const run = (name: string, who: ReturnType<typeof caller>, signal = never) =>
    runInShare(share, who, signal, () => {
      begun.push(name);
      return new Promise<never>(() => {});
    });
  return { share, begun, run };
}

describe("tasks of calls in a share", () => {
  it("are counted by account, administrator, and address of an unknown caller", async () => {
    const { share, begun, run } = shareOfOne(10);
    for (const [name, who] of [
      ["a", caller(keyOf("a"))],
      ["a again", caller(keyOf("a"), "192.0.2.2")],
      ["b", caller(keyOf("b"))],
      ["administrator", caller(tokenAdministrator)],
      ["one address", caller(nobody)],
      ["another address", caller(nobody, "192.0.2.2")],
    ] as const) {
      void run(name, who);
    }
    await new Promise((resolve) => setImmediate(resolve));
    expect(begun).toEqual(["a", "b", "administrator", "one address", "another address"]);
    expect(share.waiting).toBe(1);
  });

  it("are rejected with 503 and Retry-After when too many of them wait, and with the error of their call when it is aborted", async () => {
    const { share, run } = shareOfOne(1);
    const ended = new AbortSource();
    void run("first", caller(keyOf("a")));
    const waiting = run("second", caller(keyOf("a")), ended);
    await expect(run("third", caller(keyOf("a")))).rejects.toMatchObject({
      code: "server_is_overloaded",
      retryAfterMs: 1_000,
    });
    ended.abort(new Ended("client_left"));
    await expect(waiting).rejects.toMatchObject({ code: "client_closed_request" });
    expect(share.waiting).toBe(0);
  });
});
