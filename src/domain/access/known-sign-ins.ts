import { sha256Hex } from "../../lib/crypto.js";
import type { IdSource } from "../call/ports.js";
import { hostOf } from "./attempt-limit.js";

/** Time after the last sign-in for which an address and a browser stay known: the maximum age of the browser's cookie. */
export const knownForMs = 90 * 86_400_000;
/** Sign-ins of a known address or browser are noted again only after this time. */
const noteEveryMs = 86_400_000;
/** Maximum number of stored addresses, and of stored browsers; the most recently used ones are kept. */
const keptMax = 100;
const writeTriesMax = 5;
/** Length of a token: 43 base62 characters hold 256 bits. */
const tokenChars = 43;
const tokenForm = /^[0-9A-Za-z]{43}$/;

/** Where a sign-in comes from. */
export interface SignInPlace {
  /** Peer address without port. */
  readonly address: string;
  /** Token in the cookie of an earlier sign-in; absent without one. */
  readonly browserToken?: string | undefined;
}

/** Keys of hosts, and digests of browsers' tokens, each with the time of its last noted sign-in. */
interface Known {
  readonly hosts: ReadonlyMap<string, number>;
  readonly browsers: ReadonlyMap<string, number>;
}

const setting = "admin.sign_ins";

interface KnownSignInsDeps {
  /** The settings store, of which only one setting is used. */
  readonly settings: {
    get(name: typeof setting): Promise<{ readonly value: string; readonly version: number } | null>;
    put(name: typeof setting, value: string, expectedVersion: number | null): Promise<boolean>;
  };
  /** Store time. */
  readonly now: () => number;
  readonly ids: Pick<IdSource, "text">;
}

/**
 * Addresses and browsers that have signed in before, in the store, so that all replicas know them. They grant no access:
 * they only prevent others from using up the sign-in attempts of the administrator (E-13).
 */
export class KnownSignIns {
  readonly #deps: KnownSignInsDeps;

  constructor(deps: KnownSignInsDeps) {
    this.#deps = deps;
  }

  /** Key under which a known caller's attempts are counted: its browser, else its address; null for an unknown one. */
  async find({ address, browserToken }: SignInPlace): Promise<string | null> {
    const { known } = await this.#read();
    const [host, browser] = [hostOf(address), digestOf(browserToken)];
    if (browser !== null && known.browsers.has(browser)) return `browser ${browser}`;
    return known.hosts.has(host) ? `address ${host}` : null;
  }

  /** Notes a successful sign-in. Returns the token for the browser's cookie: its own if that is known, else a new one. */
  async note({ address, browserToken }: SignInPlace): Promise<string> {
    const { settings, now, ids } = this.#deps;
    const fresh = ids.text("", tokenChars);
    // If concurrent sign-ins win every write, only the caller's status as known is lost, so the sign-in succeeds
    // nevertheless.
    for (let tries = 0; tries < writeTriesMax; tries++) {
      const { known, version } = await this.#read();
      const given = digestOf(browserToken);
      const token = browserToken !== undefined && given !== null && known.browsers.has(given) ? browserToken : fresh;
      const [host, browser, nowMs] = [hostOf(address), sha256Hex(token), now()];
      const isNoted = (atMs: number | undefined): boolean => atMs !== undefined && nowMs - atMs < noteEveryMs;
      if (isNoted(known.hosts.get(host)) && isNoted(known.browsers.get(browser))) return token;
      const next = { hosts: noted(known.hosts, host, nowMs), browsers: noted(known.browsers, browser, nowMs) };
      if (await settings.put(setting, JSON.stringify(next), version)) return token;
    }
    return fresh;
  }

  async #read(): Promise<{ readonly known: Known; readonly version: number | null }> {
    const stored = await this.#deps.settings.get(setting);
    const oldestMs = this.#deps.now() - knownForMs;
    return { known: parseKnown(stored?.value ?? "{}", oldestMs), version: stored?.version ?? null };
  }
}

/** The digest under which a browser is stored; null for a text that is no token. */
function digestOf(token: string | undefined): string | null {
  return token !== undefined && tokenForm.test(token) ? sha256Hex(token) : null;
}

/** Stored form: JSON with a list of pairs for each map. Times before `oldestMs` are left out, and unreadable text is empty. */
function parseKnown(text: string, oldestMs: number): Known {
  try {
    const { hosts = [], browsers = [] } = JSON.parse(text) as Partial<Record<keyof Known, [string, number][]>>;
    const recent = (pairs: [string, number][]) => new Map(pairs.filter(([, atMs]) => atMs > oldestMs));
    return { hosts: recent(hosts), browsers: recent(browsers) };
  } catch {
    return { hosts: new Map(), browsers: new Map() };
  }
}

/** The entries with the time of `key` set to `nowMs`, without the oldest entries beyond `keptMax`. */
function noted(times: ReadonlyMap<string, number>, key: string, nowMs: number): readonly [string, number][] {
  const others = [...times].filter(([other]) => other !== key);
  return [[key, nowMs], ...others.toSorted(([, a], [, b]) => b - a).slice(0, keptMax - 1)];
}
