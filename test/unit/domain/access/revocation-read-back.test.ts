import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RevocationReadBack } from "../../../../src/domain/access/api-keys.js";
import { keyRecord } from "../../../suites/api-key-records.js";
import { eventually } from "../../../support/eventually.js";
import { HandFeed } from "../../../support/hand-feed.js";
import { createAccess } from "./access-fixture.js";

const { id } = keyRecord(1);

describe("RevocationReadBack", () => {
  let access: ReturnType<typeof createAccess>;
  let feed: HandFeed;
  let readBack: RevocationReadBack;
  beforeEach(async () => {
    access = createAccess();
    feed = new HandFeed();
    const { keys, clock, log } = access;
    readBack = new RevocationReadBack({ keys, changes: feed, clock, log });
    // Like a replica of the store that lacks the revocation.
    await keys.insert(keyRecord(1));
  });
  afterEach(() => readBack.close());

  const isRevoked = async () => (await access.keys.find(id))?.revokedAtMs === 1_000;

  it("repeats a revocation that the store has lost, after the connection to the store was lost (KEY-10)", async () => {
    readBack.note({ id, revokedAtMs: 1_000 });
    feed.tell({ kind: "lost_link" });
    await eventually(isRevoked, "it is revoked again");
  });

  it("reads revocations back every 30 s, also after a failed round (KEY-10)", async () => {
    readBack.note({ id, revokedAtMs: 1_000 });
    access.keys.down = true;
    feed.tell({ kind: "lost_link" });
    await eventually(() => access.keys.finds.length === 1);
    access.keys.down = false;
    expect(await isRevoked()).toBe(false);
    access.clock.advance(30_000);
    await eventually(isRevoked, "it is revoked again");
  });

  it("ignores keys that were revoked long ago or deleted", async () => {
    readBack.note({ id: "key_gone", revokedAtMs: 1_000 });
    feed.tell({ kind: "lost_link" });
    await eventually(() => access.keys.finds.includes("key_gone"));
    readBack.note({ id, revokedAtMs: 1_000 });
    access.clock.advance(300_000);
    await readBack.close();
    expect(access.keys.finds.filter((found) => found === id)).toEqual([]);
  });
});
