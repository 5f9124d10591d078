/** A setting that the service keeps for itself: the administrator's password hash, the canary of the master key. */
export interface KeptSetting {
  readonly value: string;
  /** 1 for the first value, one more with each change. */
  readonly version: number;
}

export type SettingName = "admin.password" | "admin.setup" | "secrets.canary";

/** Where such settings are kept. Rejects with `storage_unavailable`. */
export interface SettingsStore {
  get(name: SettingName): Promise<KeptSetting | null>;
  /** Writes only over `expectedVersion` (null: only where there is none); false when somebody was faster. */
  put(name: SettingName, value: string, expectedVersion: number | null): Promise<boolean>;
  remove(name: SettingName): Promise<void>;
}
