import { describe, expect, it } from "vitest";
import { Audit, theService } from "../../../../src/domain/access/audit.js";
import { nobody, tokenAdministrator } from "../../../../src/domain/call/principal.js";
import { unlimited } from "../../../../src/domain/call/rate-limits.js";
import { createAccess } from "./access-fixture.js";

const address = "192.0.2.7";
const page = { limit: 100, after: null };

describe("Audit", () => {
  it("records actor, time, address, action and result (KEY-23)", async () => {
    const { state, now, ids, log, clock } = createAccess();
    const audit = new Audit({ records: state.audit, now, ids, log });
    const key = {
      kind: "api_key",
      keyId: "key_1",
      account: "a",
      scope: "read_write",
      models: [],
      limits: unlimited,
    } as const;
    const session = { ...tokenAdministrator, sessionId: "ses_1" } as const;
    for (const principal of [tokenAdministrator, session, key, nobody]) {
      await audit.record({ principal, address }, "api_key.create", "key_2", { name: "ci" });
      clock.advance(1);
    }
    await audit.record(theService, "administrator.change_password", "admin", {}, "conflict");
    const { records } = await state.audit.list(page);
    expect(records.map(({ actor }) => `${actor.kind} ${actor.id}`)).toEqual([
      "system ",
      "nobody ",
      "api_key key_1",
      "session ses_1",
      "admin_token ",
    ]);
    expect(records[0]).toMatchObject({ action: "administrator.change_password", address: "", result: "conflict" });
    expect(records[4]).toMatchObject({
      id: expect.stringMatching(/^aud_[0-9A-Za-z]{24}$/),
      atMs: now() - 4,
      address,
      action: "api_key.create",
      target: "key_2",
      result: "ok",
      details: { name: "ci" },
    });
  });

  it("a record that cannot be written is logged and counted, and the operation continues (KEY-23)", async () => {
    const { now, ids, log, lines } = createAccess();
    const records = { append: () => Promise.reject(new Error("the disk is full")) };
    const audit = new Audit({ records, now, ids, log });
    await audit.record({ principal: tokenAdministrator, address }, "api_key.revoke", "key_1");
    expect(audit.lost).toBe(1);
    expect(lines).toEqual([expect.stringContaining("api_key.revoke")]);
  });

  it("cuts details that are longer than 256 characters", async () => {
    const { state, now, ids, log } = createAccess();
    const audit = new Audit({ records: state.audit, now, ids, log });
    await audit.record(theService, "api_key.create", "key_1", { models: "m".repeat(10_000) });
    expect((await state.audit.list(page)).records[0]?.details["models"]).toHaveLength(256);
  });
});
