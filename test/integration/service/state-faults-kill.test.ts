import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { ServiceClient } from "../../support/service-client.js";
import { ServiceFolder } from "../../support/service-process.js";
import { countsOf, killedConfig, killedEnv, killWhileStreaming } from "./killed-stream.js";

let served: ServiceFolder;
beforeEach(async () => {
  served = await ServiceFolder.create();
});
afterEach(() => served.remove());

describe("a service that is killed (kill -9)", () => {
  it("embedded: its streams break, and the next start releases limits, keeps data and counts all requests (RSP-25, USE-13, state RL-18, state RL-20)", async () => {
    const first = await served.start(killedConfig, { env: killedEnv });
    const client = new ServiceClient(first.line.api, killedEnv.UIS_BOOTSTRAP_API_KEY);
    expect((await client.chat("m")).status).toBe(200);
    const stored = await client.post("/v1/responses", { model: "m", input: "one two" });
    expect(await killWhileStreaming(client, () => first.child.kill("SIGKILL"))).toBe("broke");
    await first.exited;

    const second = await served.start(killedConfig, { env: killedEnv });
    const again = new ServiceClient(second.line.api, killedEnv.UIS_BOOTSTRAP_API_KEY);
    expect((await again.chat("m")).status).toBe(200);
    const kept = await again.get(`/v1/responses/${stored.json["id"]}`);
    expect([kept.status, kept.text]).toEqual([200, stored.text]);
    await eventually(async () => (await countsOf(again))["hangs"] === 1, "the lost request is settled");
    expect(await countsOf(again)).toEqual({ m: 3, hangs: 1 });
  });
});
