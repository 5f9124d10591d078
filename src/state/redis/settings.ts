import type { KeptSetting, SettingName, SettingsStore } from "../../domain/access/administrator.js";
import type { RedisChangeFeed } from "./connection/change-feed.js";
import type { RedisClient } from "./connection/client.js";
import { Documents, documentKeys } from "./documents.js";

const form = 1;
/** Names come from the code, so this is never reached. */
const settingsMax = 100;

export class RedisSettingsStore implements SettingsStore {
  readonly #documents: Documents;

  constructor(client: RedisClient, feed: RedisChangeFeed) {
    const { settings } = documentKeys(client.prefix);
    this.#documents = new Documents(client, feed, {
      key: settings,
      max: settingsMax,
      change: () => ({ kind: "settings" }),
    });
  }

  async get(name: SettingName): Promise<KeptSetting | null> {
    const text = await this.#documents.get(name);
    return text === null ? null : parseSetting(text);
  }

  async put(name: SettingName, value: string, expectedVersion: number | null): Promise<boolean> {
    const text = expectedVersion === null ? null : await this.#documents.get(name);
    if (expectedVersion === null) return this.#documents.put(name, settingText({ value, version: 1 }), "absent");
    if (text === null || parseSetting(text).version !== expectedVersion) return false;
    const next = settingText({ value, version: expectedVersion + 1 });
    return this.#documents.put(name, next, { same: text });
  }

  async remove(name: SettingName): Promise<void> {
    await this.#documents.remove(name);
  }
}

function settingText({ value, version }: KeptSetting): string {
  return JSON.stringify({ v: form, version, value });
}

function parseSetting(text: string): KeptSetting {
  const { value, version } = JSON.parse(text) as KeptSetting;
  return { value, version };
}
