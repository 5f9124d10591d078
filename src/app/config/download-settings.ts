import type { Variables } from "./expand.js";

/** How models are fetched, by the variables that other tools use for the same. */
export interface DownloadSettings {
  /** Null: the public hub. */
  readonly hubEndpoint: string | null;
  /** Null: no credential is sent. */
  readonly hubToken: string | null;
  readonly httpProxy: string | null;
  readonly httpsProxy: string | null;
  /** Hosts that need no proxy. */
  readonly noProxy: string | null;
}

/** Reads HF_ENDPOINT, HF_TOKEN and the proxy variables, those in either case. */
export function readDownloadSettings(variables: Variables): DownloadSettings {
  const read = (...names: string[]): string | null => names.map((name) => variables[name]).find(Boolean) ?? null;
  return {
    hubEndpoint: read("HF_ENDPOINT"),
    hubToken: read("HF_TOKEN"),
    httpProxy: read("HTTP_PROXY", "http_proxy"),
    httpsProxy: read("HTTPS_PROXY", "https_proxy"),
    noProxy: read("NO_PROXY", "no_proxy"),
  };
}
