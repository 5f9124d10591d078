import { describe, expect, it } from "vitest";
import { eachTest, type OpenState } from "./state-harness.js";

export function describeSettingsStore(open: OpenState): void {
  describe("SettingsStore", () => {
    const harness = eachTest(open);

    it("keeps a value and counts its versions from 1", async () => {
      const { settings } = harness.state;
      expect(await settings.get("admin.password")).toBeNull();
      expect(await settings.put("admin.password", "first 'é'", null)).toBe(true);
      expect(await settings.get("admin.password")).toEqual({ value: "first 'é'", version: 1 });
      expect(await settings.put("admin.password", "second", 1)).toBe(true);
      expect(await settings.get("admin.password")).toEqual({ value: "second", version: 2 });
      expect(await settings.get("secrets.canary")).toBeNull();
    });

    it("replaces a value only if its version is the one that the writer has read", async () => {
      const { settings } = harness.state;
      expect(await settings.put("admin.password", "a", 1)).toBe(false);
      await settings.put("admin.password", "b", null);
      expect(await settings.put("admin.password", "c", null)).toBe(false);
      expect(await settings.put("admin.password", "c", 2)).toBe(false);
      expect(await settings.get("admin.password")).toEqual({ value: "b", version: 1 });
    });

    it("exactly one of several simultaneous writers succeeds", async () => {
      const { settings } = harness.state;
      const values = ["a", "b", "c", "d"];
      const won = await Promise.all(values.map((value) => settings.put("admin.setup", value, null)));
      expect(won.filter(Boolean)).toHaveLength(1);
      expect(await settings.get("admin.setup")).toEqual({ value: values[won.indexOf(true)], version: 1 });
    });

    it("no longer returns removed values", async () => {
      const { settings } = harness.state;
      await settings.put("admin.setup", "a", null);
      await settings.remove("admin.setup");
      await settings.remove("admin.setup");
      expect(await settings.get("admin.setup")).toBeNull();
      expect(await settings.put("admin.setup", "b", null)).toBe(true);
    });
  });
}
