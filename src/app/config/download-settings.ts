import type { Variables } from "./expand.js";
import { ConfigError } from "./problem.js";
import { readSecretText, type SecretText } from "./secret-text.js";

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

/** The hub's credential, which also comes from the file that HF_TOKEN_FILE names. */
export function readHubToken(variables: Variables): SecretText {
  return readSecretText("HF_TOKEN", variables);
}

/**
 * Reads HF_ENDPOINT, HF_TOKEN and the proxy variables, those in either case. Throws ConfigError when the token's file
 * cannot be read.
 */
export function readDownloadSettings(variables: Variables): DownloadSettings {
  const read = (...names: string[]): string | null => names.map((name) => variables[name]).find(Boolean) ?? null;
  const hubToken = readHubToken(variables);
  if ("problem" in hubToken) throw new ConfigError([hubToken.problem], null);
  return {
    hubEndpoint: read("HF_ENDPOINT"),
    hubToken: hubToken.text,
    httpProxy: read("HTTP_PROXY", "http_proxy"),
    httpsProxy: read("HTTPS_PROXY", "https_proxy"),
    noProxy: read("NO_PROXY", "no_proxy"),
  };
}
