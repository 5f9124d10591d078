import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ConfigError } from "../../../../src/app/config/problem.js";
import { readSecrets } from "../../../../src/app/config/secrets.js";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-secrets-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

const token = "an-admin-token-of-24-char";

describe("readSecrets", () => {
  it("gives null for what is not set", async () => {
    const none = { adminToken: null, bootstrapApiKey: null, adminPassword: null, masterKey: null };
    expect(await readSecrets({})).toEqual(none);
    expect(await readSecrets({ UIS_ADMIN_TOKEN: "" })).toEqual(none);
  });

  it("reads variables, and files without the line break at their end", async () => {
    const file = join(folder, "key");
    await writeFile(file, "my-own-key\n");
    const secrets = await readSecrets({ UIS_ADMIN_TOKEN: token, UIS_BOOTSTRAP_API_KEY_FILE: file });
    expect(secrets).toMatchObject({ adminToken: token, bootstrapApiKey: "my-own-key" });
  });

  it("USE-17: the master key is 32 bytes, written as base64", async () => {
    const { masterKey } = await readSecrets({ UIS_MASTER_KEY: Buffer.alloc(32, 7).toString("base64") });
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
  ])("refuses a %s of wrong form without showing it", async (name, value) => {
    const error = await readSecrets({ [name]: value }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigError);
    expect((error as ConfigError).message).toContain(name);
    expect((error as ConfigError).message).not.toContain(value);
  });

  it("refuses a variable and its file together, and a file that cannot be read", async () => {
    await expect(readSecrets({ UIS_ADMIN_TOKEN: token, UIS_ADMIN_TOKEN_FILE: "x" })).rejects.toThrow("set one of them");
    await expect(readSecrets({ UIS_ADMIN_TOKEN_FILE: join(folder, "gone") })).rejects.toThrow("cannot be read");
  });
});
