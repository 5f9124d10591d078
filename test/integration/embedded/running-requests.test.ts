import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import type { LostRequest } from "../../../src/domain/metering/ledger.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { admission, leaseMs } from "../../support/records.js";
import { silentLog } from "../../support/silent-log.js";

/** Every field has a value, and none is that of `admission`: the compiler requires new fields here. */
const running: Required<Omit<LostRequest, "admittedAtMs">> = {
  requestId: `req_${"ab".repeat(16)}`,
  account: "other",
  keyId: "key_other",
  model: "another",
  operation: "create_completion",
  promptTokens: 7,
  completionTokens: 3,
};

it("a running request is restored with all of its fields from the columns of its row (USE-13)", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "uis-running-"));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  const open = () => openEmbeddedState({ dataDir, log: silentLog });
  const former = await open();
  await former.ledger.admit({ ...admission(running.requestId), ...running });
  const { requestId, account, promptTokens, completionTokens } = running;
  await former.ledger.renew([{ requestId, account, promptTokens, completionTokens }], 1);
  // The journal, from which requests of a killed process come, is removed by a regular close.
  await former.close();
  expect((await readdir(dataDir)).filter((name) => name.startsWith("uis.live"))).toEqual([]);
  const state = await open();
  onTestFinished(() => state.close());
  expect(await state.ledger.sweepLost(10, leaseMs)).toEqual([{ ...running, admittedAtMs: expect.any(Number) }]);
});
