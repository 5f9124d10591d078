import { X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { createSecureContext } from "node:tls";
import type { UpstreamDefinition, UpstreamTls } from "../../domain/engine/upstream.js";
import { credentialHeaders, keyForm, keyWords } from "../../domain/engine/upstream-forms.js";
import { checkUpstreamUrl } from "../../domain/engine/upstream-url.js";
import { errorText } from "../../lib/display-text.js";
import { Secret } from "../../lib/secret.js";
import type { Variables } from "./expand.js";
import { toServiceLimits } from "./limits-settings.js";
import type { LoadedConfig } from "./load-config.js";
import { discoverMs } from "./model-references.js";
import { ConfigError, type ConfigProblem, formatPath, problemAt, type SettingPath } from "./problem.js";
import { readSecretText } from "./secrets.js";
import { type UpstreamSettings, upstreamKeyVariable } from "./upstream-settings.js";

interface UpstreamSources {
  readonly env: Variables;
  /** Folder to which relative paths of files refer. */
  readonly cwd: string;
}

/**
 * The upstreams of the configuration, with their keys and TLS files read. Throws a ConfigError with every unusable file
 * and key, and never with a key.
 */
export function readUpstreams(
  { config, file, positionOf }: Pick<LoadedConfig, "config" | "file" | "positionOf">,
  { env, cwd }: UpstreamSources,
): readonly UpstreamDefinition[] {
  const problems: ConfigProblem[] = [];
  const { deadlineMs } = toServiceLimits(config.limits);
  const definitions = Object.entries(config.upstreams).map(([name, settings]): UpstreamDefinition => {
    const report = (path: SettingPath, message: string): void => {
      const whole = ["upstreams", name, ...path];
      problems.push(problemAt(formatPath(whole), message, null, positionOf(whole)));
    };
    const files = new UpstreamFiles(cwd, report);
    const keys = readKeys(name, settings, env, files, (problem) => problems.push(problem));
    const headers = Object.entries(settings.headers).map(([header, value]) => [header.toLowerCase(), value] as const);
    const credential = headers.find(([header]) => credentialHeaders.includes(header))?.[0];
    if (keys.length > 0 && credential !== undefined) {
      report(["headers"], `has ${credential}, but the upstream also has a key: remove one of them`);
    }
    const url = checkUpstreamUrl(settings.url);
    return {
      name,
      kind: settings.kind,
      url: "url" in url ? url.url : settings.url,
      apiVersion: settings.api_version,
      keys: keys.map((key) => new Secret(key)),
      headers: Object.fromEntries(headers.map(([header, value]) => [header, new Secret(value)])),
      discoverMs: discoverMs(name, config.models ?? [], config.upstreams),
      connectMs: settings.connect,
      firstByteMs: settings.first_byte,
      idleMs: settings.idle,
      totalMs: Math.min(settings.total, deadlineMs),
      tls: readTls(settings.tls, files, report),
      native: settings.native,
    };
  });
  if (problems.length > 0) throw new ConfigError(problems, file);
  return definitions;
}

type Report = (path: SettingPath, message: string) => void;

const fileBytesMax = 1024 * 1024;

/** Reads the files that the settings of one upstream name, and reports those that cannot be used. */
class UpstreamFiles {
  readonly #cwd: string;
  readonly report: Report;

  constructor(cwd: string, report: Report) {
    this.#cwd = cwd;
    this.report = report;
  }

  /** Content of the file; null if no file is set, or it cannot be used. */
  read(path: SettingPath, name: string | null): string | null {
    if (name === null) return null;
    const file = resolve(this.#cwd, name);
    try {
      if (statSync(file).size > fileBytesMax) {
        this.report(path, `${file} has more than 1 MiB: name the right file`);
        return null;
      }
      const text = readFileSync(file, "utf8");
      if (text.trim() !== "") return text;
      this.report(path, `${file} is empty: write the content into it, or remove the setting`);
    } catch (error) {
      this.report(path, `cannot be read: ${errorText(error)}; check the path and its permissions`);
    }
    return null;
  }
}

const keysMax = 1_000;

/** Reads the keys. The variable takes precedence over the files in the configuration, as with every setting. */
function readKeys(
  name: string,
  settings: UpstreamSettings,
  env: Variables,
  files: UpstreamFiles,
  add: (problem: ConfigProblem) => void,
): readonly string[] {
  const found = readSecretText(upstreamKeyVariable(name), env);
  if ("problem" in found) {
    add(found.problem);
    return [];
  }
  if (found.text !== null) {
    if (!keyForm.test(found.text)) add(problemAt(found.from, `must be one key: ${keyWords}`));
    return [found.text];
  }
  if (settings.keys_file !== null) return readKeyLines(settings.keys_file, files);
  if (settings.key !== null) return [settings.key];
  const key = files.read(["key_file"], settings.key_file)?.replace(/\r?\n$/, "");
  if (key === undefined) return [];
  if (!keyForm.test(key)) files.report(["key_file"], `must have one key: ${keyWords}; for several, set keys_file`);
  return [key];
}

function readKeyLines(file: string, files: UpstreamFiles): readonly string[] {
  const text = files.read(["keys_file"], file);
  if (text === null) return [];
  const keys = new Set<string>();
  text.split("\n").forEach((line, i) => {
    const key = line.trim();
    if (key === "" || key.startsWith("#")) return;
    if (!keyForm.test(key)) files.report(["keys_file"], `line ${i + 1} of ${file} is not one key: ${keyWords}`);
    keys.add(key);
  });
  if (keys.size === 0) files.report(["keys_file"], `${file} has no key: write one per line, or remove the setting`);
  if (keys.size > keysMax) files.report(["keys_file"], `${file} has more than ${keysMax} keys: use fewer`);
  return [...keys];
}

function readTls(settings: UpstreamSettings["tls"], files: UpstreamFiles, report: Report): UpstreamTls {
  const read = (name: "ca_file" | "cert_file" | "key_file") => files.read(["tls", name], settings[name]);
  const [ca, cert, key] = [read("ca_file"), read("cert_file"), read("key_file")];
  const check = (path: string, use: () => unknown): void => {
    try {
      use();
    } catch (error) {
      report(["tls", path], `cannot be used: ${errorText(error)}; set a PEM file`);
    }
  };
  if (ca !== null) check("ca_file", () => new X509Certificate(ca));
  if (cert !== null && key !== null) check("cert_file", () => createSecureContext({ cert, key }));
  return { ca, cert, key: key === null ? null : new Secret(key), serverName: settings.server_name };
}
