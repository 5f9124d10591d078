import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { tokenAdministrator } from "../../../src/domain/call/principal.js";
import { StoredResponses } from "../../../src/domain/responses/stored-responses.js";
import type { State } from "../../../src/domain/service/state.js";
import { SecretBox } from "../../../src/lib/crypto.js";
import { migrate } from "../../../src/state/embedded/database/migrations.js";
import { restoreEmbeddedState } from "../../../src/state/embedded/database/restore.js";
import { openSqlite } from "../../../src/state/embedded/database/sqlite.js";
import { databaseFile } from "../../../src/state/embedded/database/state-file.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { FakeClock } from "../../support/fake-clock.js";
import { storedResponse } from "../../support/records.js";
import { silentLog } from "../../support/silent-log.js";

/** The last migration before responses could be stored. */
const stepBefore = 8;

async function folder(): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), "uis-responses-"));
  onTestFinished(() => rm(root, { recursive: true }));
  return root;
}

it("a file of the version without stored responses opens without responses, and a later backup contains new ones", async () => {
  const root = await folder();
  const db = openSqlite(databaseFile(root));
  migrate(db, 1_000, stepBefore);
  db.close();
  const state = await openEmbeddedState({ dataDir: root, log: silentLog });
  expect(await state.responses.get("a", "resp_1")).toBeNull();
  for (const number of [1, 2, 3]) await state.responses.put(storedResponse(number), 2);
  const file = join(root, "backup.db");
  await state.backup?.(file);
  await state.responses.purge(Number.MAX_SAFE_INTEGER, 10);
  await state.close();
  restoreEmbeddedState({ dataDir: root, file, nowMs: 1 });
  const restored = await openEmbeddedState({ dataDir: root, log: silentLog });
  const found = await Promise.all([1, 2, 3].map((number) => restored.responses.get("a", `resp_${number}`)));
  expect(found).toEqual([null, storedResponse(2), storedResponse(3)]);
  // The restored count of responses of the account equals the number of its rows.
  await restored.responses.put(storedResponse(4), 3);
  expect(await restored.responses.get("a", "resp_2")).toEqual(storedResponse(2));
  await restored.close();
});

it("no file contains the text of a stored response (RSP-26)", async () => {
  const root = await folder();
  const clock = new FakeClock();
  const state: State = await openEmbeddedState({ dataDir: root, log: silentLog, clock });
  const secrets = new SecretBox(Buffer.alloc(32, 7));
  const caller = { principal: tokenAdministrator };
  const deps = { store: state.responses, secrets, clock, now: state.now, keepMs: 60_000, log: silentLog };
  const responses = new StoredResponses(deps);
  const json = JSON.stringify({ id: "resp_1", output: [{ id: "msg_1", content: "planted-answer" }] });
  const input = [{ id: "msg_2", content: "planted-question" }];
  expect(await responses.put({ id: "resp_1", previousId: null, json, input }, caller)).toBe(true);
  const textOfFiles = async () => {
    const names = await readdir(root);
    const files = await Promise.all(names.map((name) => readFile(join(root, name), "latin1")));
    return files.join("");
  };
  expect(await textOfFiles()).not.toContain("planted");
  expect(await responses.get("resp_1", caller)).toBe(json);
  await state.close();
  const text = await textOfFiles();
  expect(text).toContain("resp_1");
  expect(text).not.toContain("planted");
});
