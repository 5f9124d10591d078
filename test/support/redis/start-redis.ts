import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RedisTlsFiles } from "../../../src/state/redis/connection/connect-options.js";
import { makeCertificates } from "./certificates.js";
import { freePort, newFolder, type RedisProcess, startProgram } from "./redis-process.js";

export interface RedisServer extends RedisProcess {
  readonly url: string;
  readonly tls: RedisTlsFiles | null;
}

export interface RedisServerOptions {
  /** How often the append-only file is synced; `no` disables the file. */
  readonly aof?: "always" | "everysec" | "no";
  readonly tls?: boolean;
  /** Only the user `uis` may connect, with a password and the permissions that the service needs. */
  readonly acl?: boolean;
  /** Additional ACL rules of the user. */
  readonly rules?: string;
  readonly args?: readonly string[];
  /** Variables in addition to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** An empty folder for its files; default: a new one. */
  readonly folder?: string;
  /** Changes the command line, for example to run it under another program. */
  readonly under?: (command: readonly string[]) => readonly string[];
}

const password = "p@ss/word%20:x";
export const readyLine = "Ready to accept connections";

/** Starts one server. */
export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const { aof = "everysec", tls: isTls = false, acl = false, rules = "", args = [], env = {}, under } = options;
  const [port, folder] = [await freePort(), options.folder ?? newFolder()];
  const certificates = isTls ? makeCertificates(folder) : null;
  const secureArgs =
    certificates === null
      ? ["--port", String(port)]
      : [
          ...["--port", "0", "--tls-port", String(port), "--tls-auth-clients", "no"],
          ...["--tls-ca-cert-file", certificates.caFile],
          ...["--tls-cert-file", certificates.certFile, "--tls-key-file", certificates.keyFile],
        ];
  const users = join(folder, "users.acl");
  if (acl) {
    const service = `user uis on >${password} ~uis:* &uis:* +@all -@dangerous +info ${rules}`;
    writeFileSync(users, `user default off\nuser admin on >admin ~* &* +@all\n${service}\n`);
  }
  const login = acl ? `uis:${encodeURIComponent(password)}@` : "";
  const process = await startProgram({
    args: [...baseArgs(aof), ...secureArgs, ...(acl ? ["--aclfile", users] : []), ...args],
    port,
    folder,
    readyLine,
    env,
    ...(under === undefined ? {} : { under }),
    cliArgs: [
      ...(certificates === null ? [] : ["--tls", "--cacert", certificates.caFile]),
      ...(acl ? ["--user", "admin", "--pass", "admin", "--no-auth-warning"] : []),
    ],
  });
  return {
    ...process,
    url: `${isTls ? "rediss" : "redis"}://${login}127.0.0.1:${port}/0`,
    tls:
      certificates === null ? null : { caFile: certificates.caFile, certFile: null, keyFile: null, serverName: null },
  };
}

export function baseArgs(aof: NonNullable<RedisServerOptions["aof"]>): string[] {
  const fsync = aof === "no" ? ["--appendonly", "no"] : ["--appendonly", "yes", "--appendfsync", aof];
  // `--save ""` as one word: an empty argument would end the option.
  return [
    "--bind",
    "127.0.0.1",
    "--save",
    "",
    ...fsync,
    "--aof-load-truncated",
    "no",
    "--repl-diskless-sync-delay",
    "0",
  ];
}
