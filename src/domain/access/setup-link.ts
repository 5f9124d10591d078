import { isSameDigest, sha256Hex } from "../../lib/digest.js";
import type { IdSource } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";

/** A link is good for one use within an hour (KEY-20). */
const validMs = 3_600_000;
/** 43 characters of 62 hold 256 bits. */
const tokenChars = 43;
/** As it is kept: SHA-256 of the token, and the end of its time. Empty once it was used. */
const keptForm = /^([0-9a-f]{64}):(\d{1,16})$/;
const replaceTriesMax = 5;

/** Where the browser shows the page that sets the password. The fragment with the token is not sent to any server. */
const pagePath = "/dashboard/setup";

export interface SetupLink {
  /** To be put after `http://host:port`. */
  readonly path: string;
  readonly token: string;
  readonly expiresAtMs: number;
}

export interface SetupLinksDeps {
  readonly settings: SettingsStore;
  readonly now: () => number;
  readonly ids: Pick<IdSource, "text">;
}

/** The one link that sets the administrator's password without knowing the old one. */
export class SetupLinks {
  readonly #deps: SetupLinksDeps;

  constructor(deps: SetupLinksDeps) {
    this.#deps = deps;
  }

  /** A new link; the one before is void. */
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

  /** The version under which a token can be used now. Rejects with `invalid_api_key` for a token that cannot. */
  async check(token: string): Promise<number> {
    const kept = await this.#deps.settings.get("admin.setup");
    const [, hash, expiresAtMs] = keptForm.exec(kept?.value ?? "") ?? [];
    if (kept === null || hash === undefined || !isSameDigest(sha256Hex(token), hash)) throw notValid();
    if (this.#deps.now() >= Number(expiresAtMs)) throw notValid();
    return kept.version;
  }

  /** Makes the token of `check` void. Rejects with `invalid_api_key` when it was used meanwhile. */
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
