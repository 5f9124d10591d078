import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ConfigError } from "../../../../src/app/config/problem.js";
import { readSecrets } from "../../../../src/app/config/secrets.js";
import { readDownloadSettings } from "../../../../src/app/config/well-known-variables.js";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-secrets-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

const token = "an-admin-token-of-24-char";

function thrownBy(variables: Record<string, string>): unknown {
  try {
    return readSecrets(variables);
  } catch (error) {
    return error;
  }
}

describe("readSecrets", () => {
  it("returns null for variables that are not set", () => {
    const none = { adminToken: null, bootstrapApiKey: null, adminPassword: null, masterKey: null };
    expect(readSecrets({})).toEqual(none);
    expect(readSecrets({ UIS_ADMIN_TOKEN: "" })).toEqual(none);
  });

  it("reads variables, and files without the line break at their end", async () => {
    const file = join(folder, "key");
    await writeFile(file, "my-own-key\n");
    const secrets = readSecrets({ UIS_ADMIN_TOKEN: token, UIS_BOOTSTRAP_API_KEY_FILE: file });
    expect(secrets).toMatchObject({ adminToken: token, bootstrapApiKey: "my-own-key" });
  });

  it("the master key is 32 bytes, written as base64 (USE-17)", () => {
    const { masterKey } = readSecrets({ UIS_MASTER_KEY: Buffer.alloc(32, 7).toString("base64") });
    expect(masterKey).toEqual(Buffer.alloc(32, 7));
  });

  it.each([
    ["UIS_ADMIN_TOKEN", "fifteen-charact"],
    ["UIS_ADMIN_TOKEN", "x".repeat(257)],
    ["UIS_BOOTSTRAP_API_KEY", "seven77"],
    ["UIS_BOOTSTRAP_API_KEY", "has a space in it"],
    ["UIS_BOOTSTRAP_API_KEY", "has-an-umlaut-ä"],
    ["UIS_MASTER_KEY", "bm90IDMyIGJ5dGVz"],
    ["UIS_ADMIN_PASSWORD", "eleven-char"],
  ])("rejects an invalid %s without showing it", (name, value) => {
    const error = thrownBy({ [name]: value });
    expect(error).toBeInstanceOf(ConfigError);
    expect((error as ConfigError).message).toContain(name);
    expect((error as ConfigError).message).not.toContain(value);
  });

  it("rejects a variable together with its file, and an unreadable or empty file", async () => {
    const empty = join(folder, "empty");
    await writeFile(empty, "\n");
    expect(() => readSecrets({ UIS_ADMIN_TOKEN: token, UIS_ADMIN_TOKEN_FILE: "x" })).toThrow("set one of them");
    expect(() => readSecrets({ UIS_ADMIN_TOKEN_FILE: join(folder, "gone") })).toThrow("cannot be read");
    expect(() => readSecrets({ UIS_ADMIN_TOKEN_FILE: empty })).toThrow(`UIS_ADMIN_TOKEN_FILE: ${empty} is empty`);
  });
});

describe("readDownloadSettings", () => {
  it("reads the hub's token from its variable or from a file", async () => {
    const file = join(folder, "token");
    await writeFile(file, "hf_a-token\n");
    expect(readDownloadSettings({ HF_TOKEN: "hf_other" }).hubToken).toBe("hf_other");
    expect(readDownloadSettings({ HF_TOKEN_FILE: file }).hubToken).toBe("hf_a-token");
    expect(readDownloadSettings({}).hubToken).toBe("");
    expect(() => readDownloadSettings({ HF_TOKEN_FILE: join(folder, "gone") })).toThrow(
      "HF_TOKEN_FILE: cannot be read",
    );
  });
});
