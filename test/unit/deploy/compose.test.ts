import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse, parseDocument } from "yaml";
import { configSchema } from "../../../src/app/config/schema.js";

interface ComposeService {
  readonly build?: object;
  readonly user?: string;
  readonly command?: readonly string[];
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly healthcheck?: object;
  readonly cap_drop?: readonly string[];
  readonly read_only?: boolean;
  readonly stop_grace_period?: string;
}

interface Compose {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly volumes: object;
}

const folder = "deploy/compose";
const read = (file: string) => readFileSync(file, "utf8");
const document = parseDocument(read(`${folder}/vllm.yaml`), { merge: true });
const { services, volumes } = document.toJS() as Compose;
const replicas = ["uis-1", "uis-2"];
const config = configSchema.parse(parse(read(`${folder}/uis.yaml`)));
const settings = read("docs/config.md");

describe("deploy/compose/vllm.yaml", () => {
  it("publishes only ports of the proxy, and only on this machine", () => {
    expect(document.errors).toEqual([]);
    const published = Object.entries(services).filter(([, { ports }]) => ports !== undefined);
    const { port, grpc_port } = config.server;
    expect(published.map(([name, { ports }]) => [name, ports])).toEqual([
      ["haproxy", [`127.0.0.1:${port}:${port}`, `127.0.0.1:${grpc_port}:${grpc_port}`]],
    ]);
  });

  it("gives no service more rights than it needs, and each a health check", () => {
    for (const [name, { build, user, cap_drop, healthcheck }] of Object.entries(services)) {
      expect([name, cap_drop, user !== undefined || build !== undefined]).toEqual([name, ["ALL"], true]);
      // The image of the service defines a health check itself.
      expect([name, healthcheck !== undefined || build !== undefined]).toEqual([name, true]);
    }
  });

  it("runs two equal replicas with their own data and time to finish, which HAProxy balances", () => {
    const [one, two] = replicas.map((name) => ({ ...services[name], volumes: null }));
    expect(one).toEqual(two);
    expect(one?.read_only).toBe(true);
    expect(Number.parseInt(one?.stop_grace_period ?? "", 10)).toBeGreaterThan(125);
    const data = replicas.map((name) => services[name]?.volumes?.find((volume) => volume.endsWith(":/data")));
    expect(data).toEqual(["data-1:/data", "data-2:/data"]);
    const servers = [...read(`${folder}/haproxy.cfg`).matchAll(/^ {2}server \w+ (\S+)/gm)].map(
      ([, address]) => address,
    );
    const { port, grpc_port } = config.server;
    expect(servers).toEqual([port, grpc_port].flatMap((one) => replicas.map((name) => `${name}:${one}`)));
  });

  it("names volumes, files and variables that exist, and contains no secret", () => {
    const sources = Object.values(services).flatMap(
      (one) => one.volumes?.map((volume) => volume.split(":")[0] ?? "") ?? [],
    );
    const files = sources.filter((source) => source.startsWith("."));
    const named = sources.filter((source) => !source.startsWith("."));
    expect(named.toSorted()).toEqual(Object.keys(volumes).toSorted());
    expect(files.filter((file) => !existsSync(join(folder, file)))).toEqual([]);
    const environment = services["uis-1"]?.environment ?? {};
    const upstreamKey = `UIS_UPSTREAM_${Object.keys(config.upstreams)[0]?.toUpperCase()}_KEY`;
    expect(Object.keys(environment)).toContain(upstreamKey);
    const isKnown = (name: string) => name === upstreamKey || settings.includes(`\`${name}\``);
    expect(Object.keys(environment).filter((name) => !isKnown(name))).toEqual([]);
    const secrets = Object.values(services).flatMap((one) =>
      Object.entries(one.environment ?? {}).filter(([name]) => /_KEY$|TOKEN$/.test(name)),
    );
    expect(secrets.length).toBe(6);
    for (const [, value] of secrets) expect(value).toMatch(/^\$\{\w+:\?.+\}$/);
  });

  it("starts Redis so that a damaged append-only file is repaired, as compose.redis.yaml does", () => {
    const { services: others } = parse(read("deploy/docker/compose.redis.yaml")) as Compose;
    expect(services["redis"]).toEqual(others["redis"]);
  });

  it("gives the replicas together the number of requests that vLLM runs at the same time, for the model that it loads", () => {
    const command = services["vllm"]?.command ?? [];
    const [model] = config.models ?? [];
    expect(command).toContain(`--model=${(model as { model?: string }).model}`);
    expect(command).toContain(`--max-num-seqs=${(model as { slots: number }).slots * replicas.length}`);
  });
});
