import { describe, expect, it } from "vitest";
import { createAccess } from "./access-fixture.js";

const from = { address: "192.0.2.7", userAgent: "a browser" };
const hour = 3_600_000;
const day = 24 * hour;

describe("Sessions", () => {
  it("keeps the hash of a token of 256 bits, never the token (KEY-22)", async () => {
    const { sessions, state, clock } = createAccess();
    const { record, token } = await sessions.begin("admin", from);
    expect(token).toMatch(/^[0-9A-Za-z]{43}$/);
    expect(record).toMatchObject({ user: "admin", role: "admin", address: from.address, userAgent: from.userAgent });
    expect(record.expiresAtMs).toBe(clock.now() + 12 * hour);
    expect(JSON.stringify(await state.sessions.list(clock.now()))).not.toContain(token);
  });

  it("ends after 12 hours without use (KEY-22)", async () => {
    const { sessions, clock } = createAccess();
    const { token } = await sessions.begin("admin", from);
    for (let use = 0; use < 3; use++) {
      clock.advance(12 * hour - 1);
      await sessions.authenticate(token);
    }
    clock.advance(12 * hour);
    await expect(sessions.authenticate(token)).rejects.toMatchObject({ code: "invalid_api_key" });
  });

  it("ends after 7 days regardless of use (KEY-22)", async () => {
    const { sessions, clock } = createAccess();
    const { token, record } = await sessions.begin("admin", from);
    const endsAtMs = record.createdAtMs + 7 * day;
    while (clock.now() + 6 * hour < endsAtMs) {
      clock.advance(6 * hour);
      await sessions.authenticate(token);
    }
    clock.advance(endsAtMs - clock.now() - 1);
    await sessions.authenticate(token);
    expect(await sessions.list()).toHaveLength(1);
    clock.advance(1);
    await expect(sessions.authenticate(token)).rejects.toMatchObject({ code: "invalid_api_key" });
    expect(await sessions.list()).toEqual([]);
  });

  it("rejects unknown tokens, and malformed ones without a lookup", async () => {
    const { sessions } = createAccess();
    for (const token of ["", "short", "x".repeat(43), "x".repeat(44), "ä".repeat(43)]) {
      await expect(sessions.authenticate(token)).rejects.toMatchObject({ code: "invalid_api_key" });
    }
  });

  it("records a use at most once a minute", async () => {
    const { sessions, clock } = createAccess();
    const { token, record } = await sessions.begin("admin", from);
    clock.advance(59_999);
    await sessions.authenticate(token);
    expect((await sessions.list())[0]?.lastSeenAtMs).toBe(record.createdAtMs);
    clock.advance(1);
    await sessions.authenticate(token);
    expect((await sessions.list())[0]?.lastSeenAtMs).toBe(record.createdAtMs + 60_000);
  });

  it("lists sessions, newest first, and ends one or all others (KEY-22)", async () => {
    const { sessions, clock } = createAccess();
    const made = [];
    for (let number = 0; number < 3; number++) {
      made.push(await sessions.begin("admin", from));
      clock.advance(1);
    }
    const ids = made.map(({ record }) => record.id);
    expect((await sessions.list()).map(({ id }) => id)).toEqual(ids.toReversed());
    expect(await sessions.end(ids[0] ?? "")).toBe(true);
    expect(await sessions.end(ids[0] ?? "")).toBe(false);
    expect(await sessions.endOthers("admin", ids[1] ?? "")).toBe(1);
    expect((await sessions.list()).map(({ id }) => id)).toEqual([ids[1]]);
  });
});
