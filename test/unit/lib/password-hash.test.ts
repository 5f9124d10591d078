import { describe, expect, it } from "vitest";
import { hashPassword, isPassword, noPassword } from "../../../src/lib/crypto.js";

/** Each hash takes some tenths of a second of a free core. */
describe("password hash", { timeout: 30_000 }, () => {
  it("is scrypt with N = 2^17, r = 8, p = 1 and a separate salt for each hash (KEY-21)", async () => {
    const [one, two] = await Promise.all([
      hashPassword("correct horse battery"),
      hashPassword("correct horse battery"),
    ]);
    expect(one).toMatch(/^scrypt:1:17:8:1:[\w-]{22}:[\w-]{43}$/);
    expect(one).not.toBe(two);
    expect(await isPassword("correct horse battery", one)).toBe(true);
    expect(await isPassword("correct horse batterz", one)).toBe(false);
  });

  it("matches a password in each Unicode form of its accents", async () => {
    const kept = await hashPassword("pässwörd-of-many");
    expect(await isPassword("pässwörd-of-many".normalize("NFD"), kept)).toBe(true);
  });

  it("is read with other costs, and rejected with an unknown format or excessive costs", async () => {
    const cheap = "scrypt:1:10:8:1:AAAAAAAAAAAAAAAAAAAAAA:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    expect(await isPassword("anything", cheap)).toBe(false);
    for (const bad of ["", "plain", cheap.replace(":1:10", ":2:10"), cheap.replace(":10:", ":31:")]) {
      await expect(isPassword("anything", bad)).rejects.toThrow("unknown form");
    }
  });

  it("matches no password if it is the hash of an account without a password", async () => {
    expect(await isPassword("", noPassword)).toBe(false);
  });
});
