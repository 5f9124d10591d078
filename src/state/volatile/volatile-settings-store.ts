import type { KeptSetting, SettingName, SettingsStore } from "../../domain/access/setup-link.js";
import type { LocalChanges } from "../../domain/call/change-feed.js";

export function createVolatileSettingsStore(changes: LocalChanges): SettingsStore {
  const byName = new Map<SettingName, KeptSetting>();
  return {
    async get(name) {
      return byName.get(name) ?? null;
    },
    async put(name, value, expectedVersion) {
      const version = byName.get(name)?.version ?? null;
      if (version !== expectedVersion) return false;
      byName.set(name, { value, version: (version ?? 0) + 1 });
      changes.tell({ kind: "settings" });
      return true;
    },
    async remove(name) {
      if (byName.delete(name)) changes.tell({ kind: "settings" });
    },
  };
}
