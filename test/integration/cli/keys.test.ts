import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { uis } from "../../support/cli-run.js";
import { type RunningService, startService } from "../../support/start-service.js";

let service: RunningService;
let env: Record<string, string>;

beforeAll(async () => {
  service = await startService();
  env = { UIS_URL: service.http, UIS_DATA_DIR: service.dataDir };
});

afterAll(async () => {
  await service.close();
});

const json = async (args: string[], more: Record<string, string> = {}) => {
  const { code, stdout, stderr } = await uis([...args, "--json"], { env: { ...env, ...more } });
  expect(stderr).toBe("");
  expect(code).toBe(0);
  return JSON.parse(stdout) as Record<string, unknown>;
};

const modelsWith = async (secret: unknown) =>
  (await fetch(`${service.api}/models`, { headers: { authorization: `Bearer ${String(secret)}` } })).status;

const keyFields = ["id", "name", "account", "scope", "prefix", "last4", "models", "limits"];
const laterFields = ["created_at", "expires_at", "revoked_at", "last_used_at", "priority"];

describe("uis keys", () => {
  it("creates a working key, shows its secret once, lists and revokes it", async () => {
    const args = ["keys", "create", "--name", "ci", "--scope", "read", "--account", "team-a", "--models", "a,b*"];
    const created = await json([...args, "--expires", "30d"]);
    expect(Object.keys(created)).toEqual([...keyFields, ...laterFields, "secret"]);
    expect(created).toMatchObject({
      name: "ci",
      scope: "read",
      account: "team-a",
      models: ["a", "b*"],
      revoked_at: null,
    });
    const lifeMs = Date.parse(String(created["expires_at"])) - Date.parse(String(created["created_at"]));
    expect(Math.abs(lifeMs - 30 * 86_400_000)).toBeLessThan(60_000);
    expect(await modelsWith(created["secret"])).toBe(200);

    const list = (await json(["keys", "list", "--account", "team-a"])) as unknown as Record<string, unknown>[];
    expect(list.map((key) => key["id"])).toEqual([created["id"]]);
    expect(Object.keys(list[0] ?? {})).toEqual([...keyFields, ...laterFields]);

    const revoked = await json(["keys", "revoke", String(created["id"])]);
    expect(revoked["revoked_at"]).not.toBeNull();
    expect(await modelsWith(created["secret"])).toBe(401);
  });

  it("sets limits of a key, and shows them in every answer", async () => {
    const args = ["keys", "create", "--name", "limited", "--scope", "read_write"];
    const created = await json([...args, "--rpm", "600", "--tpm", "100000", "--concurrency", "4"]);
    const limits = { requests_per_minute: 600, tokens_per_minute: 100_000, concurrency: 4 };
    expect(created["limits"]).toEqual(limits);
    const listed = (await json(["keys", "list"])) as unknown as Record<string, unknown>[];
    expect(listed.find(({ id }) => id === created["id"])?.["limits"]).toEqual(limits);
    const free = await json(args);
    expect(free["limits"]).toEqual({ requests_per_minute: null, tokens_per_minute: null, concurrency: null });
    for (const bad of ["0", "-1", "1.5", "many"]) {
      expect((await uis([...args, "--rpm", bad], { env })).code).toBe(2);
    }
  });

  it("uis keys update changes only the values that its options set", async () => {
    const args = ["keys", "create", "--name", "before", "--scope", "read", "--models", "a", "--expires", "30d"];
    const { secret: _, ...created } = await json([...args, "--rpm", "600", "--tpm", "1000"]);
    const update = (...words: string[]) => json(["keys", "update", String(created["id"]), ...words]);
    const limits = { requests_per_minute: null, tokens_per_minute: 1_000, concurrency: 3 };
    expect(await update("--rpm", "none", "--concurrency", "3")).toEqual({ ...created, limits });
    expect(await update("--name", "after", "--models", "a,b*")).toEqual({
      ...created,
      limits,
      name: "after",
      models: ["a", "b*"],
    });
    expect(await update("--all-models", "--expires", "never")).toMatchObject({ limits, models: [], expires_at: null });
    expect(await update("--priority", "batch")).toMatchObject({ name: "after", priority: "batch" });
    const later = await update("--expires", "60d");
    expect(Date.parse(String(later["expires_at"]))).toBeGreaterThan(Date.now() + 59 * 86_400_000);
  });

  it("uis limits set changes single limits of accounts, keys and models, and shows the effective ones", async () => {
    const account = ["--account", "team-l"];
    await json(["limits", "set", ...account, "--rpm", "600", "--concurrency", "4"]);
    const own = { requests_per_minute: null, tokens_per_minute: 9, concurrency: 4 };
    expect(await json(["limits", "set", ...account, "--tpm", "9", "--rpm", "none"])).toMatchObject({ own });
    expect(await json(["limits", "show", ...account])).toMatchObject({
      owner: { account: "team-l", model: null, api_key_id: null },
      own,
      effective: own,
    });
    const key = String((await json(["keys", "create", "--name", "k", "--scope", "read", "--rpm", "5"]))["id"]);
    const ofKey = { owner: { api_key_id: key }, own: { requests_per_minute: 5, tokens_per_minute: 7 } };
    expect(await json(["limits", "set", "--key", key, "--tpm", "7"])).toMatchObject(ofKey);
    const ofModel = await json(["limits", "show", "--model", "test-chat", ...account]);
    expect(ofModel).toMatchObject({ owner: { model: "test-chat" }, account: "team-l" });
  });

  it("rotates a key: the successor works immediately, the old key until the overlap ends (KEY-16)", async () => {
    const args = ["keys", "create", "--name", "old", "--scope", "read", "--account", "team-r", "--models", "test*"];
    const old = await json([...args, "--tpm", "5000"]);
    const next = await json(["keys", "rotate", String(old["id"]), "--overlap", "1h"]);
    expect(Object.keys(next)).toEqual([...keyFields, ...laterFields, "secret"]);
    const taken = ["name", "scope", "account", "models", "limits", "priority"].map((field) => [field, old[field]]);
    expect(next).toMatchObject({ ...Object.fromEntries(taken), expires_at: null });
    expect([await modelsWith(old["secret"]), await modelsWith(next["secret"])]).toEqual([200, 200]);
    const [, ended] = (await json(["keys", "list", "--account", "team-r"])) as unknown as Record<string, unknown>[];
    const restMs = Date.parse(String(ended?.["expires_at"])) - Date.now();
    expect(Math.abs(restMs - 3_600_000)).toBeLessThan(60_000);

    const last = await json(["keys", "rotate", String(next["id"]), "--overlap", "0s"]);
    expect([await modelsWith(next["secret"]), await modelsWith(last["secret"])]).toEqual([401, 200]);
    expect((await uis(["keys", "rotate", String(last["id"]), "--overlap", "8d"], { env })).code).toBe(1);
    expect((await uis(["keys", "rotate", String(last["id"]), "--overlap", "soon"], { env })).code).toBe(2);
  });

  it("rejects an empty list of models, which would allow all models", async () => {
    for (const none of ["", " , "]) {
      const args = ["keys", "create", "--name", "x", "--scope", "read", "--account", "team-e", "--models", none];
      const { code, stderr } = await uis(args, { env });
      expect(code).toBe(2);
      expect(stderr).toContain("It must have at least one item");
    }
    expect(await json(["keys", "list", "--account", "team-e"])).toEqual([]);
  });

  it("list prints the command that creates a key if the account has none", async () => {
    expect(await uis(["keys", "list", "--account", "team-none"], { env })).toEqual({
      code: 0,
      stdout: "",
      stderr: "the account team-none has no key: uis keys create --name NAME --scope read_write creates one\n",
    });
  });

  it("prefers UIS_ADMIN_TOKEN to the token in the data folder", async () => {
    const listing = await uis(["keys", "list"], { env: { ...env, UIS_ADMIN_TOKEN: "not-the-token-of-this-service" } });
    expect(listing.code).toBe(1);
    expect(listing.stderr).toContain("does not accept the credential");
    const { UIS_DATA_DIR: _, ...withoutFolder } = env;
    const given = await uis(["keys", "list", "--json"], {
      env: { ...withoutFolder, UIS_ADMIN_TOKEN: service.adminToken },
    });
    expect(given.code).toBe(0);
  });

  it("explains a missing credential, a missing service, an unknown key and a past date", async () => {
    const none = await uis(["keys", "list"], { env: { UIS_URL: service.http }, cwd: "/" });
    expect(none).toMatchObject({ code: 1, stdout: "" });
    expect(none.stderr).toContain("UIS_ADMIN_TOKEN");
    const nobody = await uis(["keys", "list"], { env: { ...env, UIS_URL: "http://127.0.0.1:1" } });
    expect(nobody.code).toBe(1);
    expect(nobody.stderr).toContain("no service answers");
    expect(await uis(["keys", "revoke", "key_unknown"], { env })).toMatchObject({ code: 1, stdout: "" });
    for (const expires of ["2020-01-01", "soon", "0s"]) {
      const past = await uis(["keys", "create", "--name", "x", "--scope", "read", "--expires", expires], { env });
      expect(past.code).toBe(2);
    }
  });
});
