import { type FreeBytes, freeBytesOf } from "../files/file-checks.js";

/** How models are fetched. Comes from the configuration; nothing here reads the environment. */
export interface PullOptions {
  /** Nothing is fetched over the network; only files of this machine are taken. */
  readonly offline: boolean;
  /** Address of the model hub. */
  readonly hubEndpoint: string;
  /** Sent to the hub, and to nobody else; empty for none. */
  readonly hubToken: string;
  /** Proxies and the hosts that need none, as the usual variables spell them; empty for none. */
  readonly httpProxy: string;
  readonly httpsProxy: string;
  readonly noProxy: string;
  /** What pip runs in, and whose PATH it is looked for on. */
  readonly pipEnvironment: Readonly<Record<string, string | undefined>>;
  readonly connectTimeoutMs: number;
  /** Silence after which a download is given up. */
  readonly stallTimeoutMs: number;
  /** Wait before a cut download goes on. */
  readonly resumeDelayMs: number;
  readonly pipTimeoutMs: number;
  readonly freeBytes: FreeBytes;
}

export const defaultPullOptions: PullOptions = {
  offline: false,
  hubEndpoint: "https://huggingface.co",
  hubToken: "",
  httpProxy: "",
  httpsProxy: "",
  noProxy: "",
  pipEnvironment: {},
  connectTimeoutMs: 5_000,
  stallTimeoutMs: 30_000,
  resumeDelayMs: 1_000,
  pipTimeoutMs: 600_000,
  freeBytes: freeBytesOf,
};
