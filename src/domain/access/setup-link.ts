import { isSameDigest, sha256Hex } from "../../lib/digest.js";
import type { IdSource } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";

/** A link is valid once, within an hour (KEY-20). */
const validMs = 3_600_000;
/** 43 characters of 62 hold 256 bits. */
const tokenChars = 43;
/** Stored form: SHA-256 of the token and its expiry; empty once used. */
const keptForm = /^([0-9a-f]{64}):(\d{1,16})$/;
const replaceTriesMax = 5;

/** The page that sets the password. Browsers do not send the fragment, which holds the token. */
const pagePath = "/dashboard/setup";

export interface SetupLink {
  /** Path and fragment, to append to `http://host:port`. */
  readonly path: string;
  readonly token: string;
  readonly expiresAtMs: number;
}

export interface SetupLinksDeps {
  readonly settings: SettingsStore;
  readonly now: () => number;
  readonly ids: Pick<IdSource, "text">;
}

/** One-time links that set the administrator's password without the old one. */
export class SetupLinks {
  readonly #deps: SetupLinksDeps;

  constructor(deps: SetupLinksDeps) {
    this.#deps = deps;
  }

  /** Creates a link; the previous one becomes invalid. */
  async create(): Promise<SetupLink> {
    const { settings, now, ids } = this.#deps;
    const token = ids.text("", tokenChars);
    const expiresAtMs = now() + validMs;
    for (let tries = 0; tries < replaceTriesMax; tries++) {
      const kept = await settings.get("admin.setup");
      const isPut = await settings.put("admin.setup", `${sha256Hex(token)}:${expiresAtMs}`, kept?.version ?? null);
      if (isPut) return { path: `${pagePath}#token=${token}`, token, expiresAtMs };
    }
    throw new ServiceError("conflict", "Other set-up links are made at the same moment. Try again.");
  }

  /** Returns the version to pass to `use`. Rejects with `invalid_api_key` for an invalid token. */
  async check(token: string): Promise<number> {
    const kept = await this.#deps.settings.get("admin.setup");
    const [, hash, expiresAtMs] = keptForm.exec(kept?.value ?? "") ?? [];
    if (kept === null || hash === undefined || !isSameDigest(sha256Hex(token), hash)) throw notValid();
    if (this.#deps.now() >= Number(expiresAtMs)) throw notValid();
    return kept.version;
  }

  /** Invalidates the token of `check`. Rejects with `invalid_api_key` if it was used meanwhile. */
  async use(version: number): Promise<void> {
    if (!(await this.#deps.settings.put("admin.setup", "", version))) throw notValid();
  }
}

function notValid(): ServiceError {
  return new ServiceError(
    "invalid_api_key",
    "The set-up link is not valid: it was used, replaced or is too old. Make a new one with: uis admin link",
  );
}

/** A setting that the service stores for itself: the administrator's password hash, the canary of the master key. */
export interface KeptSetting {
  readonly value: string;
  /** Starts at 1 and grows by one with each change. */
  readonly version: number;
}

export type SettingName = "admin.password" | "admin.setup" | "secrets.canary";

/** Port of the settings store. Rejects with `storage_unavailable`. */
export interface SettingsStore {
  get(name: SettingName): Promise<KeptSetting | null>;
  /** Compare and set: writes only over `expectedVersion` (null: only if absent); false otherwise. */
  put(name: SettingName, value: string, expectedVersion: number | null): Promise<boolean>;
  remove(name: SettingName): Promise<void>;
}
