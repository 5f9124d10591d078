import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse, parseDocument } from "yaml";

interface ComposeService {
  readonly build?: { readonly context: string; readonly dockerfile: string };
  readonly image?: string;
  readonly user?: string;
  readonly command?: readonly string[];
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly secrets?: readonly string[];
  readonly healthcheck?: object;
  readonly cap_drop?: readonly string[];
  readonly read_only?: boolean;
  readonly stop_grace_period?: string;
}

interface Compose {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

const folder = "deploy/docker";
const dockerfile = readFileSync(`${folder}/Dockerfile`, "utf8");
const settings = readFileSync("docs/config.md", "utf8");

/** The default of a setting in docs/config.md. */
function setting(name: string): string {
  const [, value = ""] = new RegExp(`^\\| \`${name}\` \\| \`([^\`]*)\``, "m").exec(settings) ?? [];
  return value;
}

/** The arguments of all Dockerfile instructions of one kind. Continued lines are joined. */
function instructions(name: string): readonly string[] {
  const lines = dockerfile.replaceAll("\\\n", "").split("\n");
  return lines.filter((line) => line.startsWith(`${name} `)).map((line) => line.slice(name.length + 1).trim());
}

function readCompose(file: string): Compose {
  const document = parseDocument(readFileSync(`${folder}/${file}`, "utf8"));
  expect(document.errors).toEqual([]);
  return document.toJS() as Compose;
}

describe("deploy/docker/Dockerfile", () => {
  it("runs without root and has a stop signal and a health check", () => {
    expect(instructions("USER")).toEqual(["node"]);
    expect(instructions("STOPSIGNAL")).toEqual(["SIGTERM"]);
    expect(instructions("HEALTHCHECK").join()).toContain("/health");
    expect(instructions("VOLUME")).toEqual(["/data"]);
  });

  it("starts the program itself, so that signals reach it", () => {
    expect(JSON.parse(instructions("ENTRYPOINT").join())).toEqual(["node", "/app/dist/app/cli.js"]);
    expect(JSON.parse(instructions("CMD").join())).toEqual(["serve"]);
  });

  it("copies only existing files that its ignore file includes", () => {
    const own = instructions("COPY").filter((line) => !line.startsWith("--from"));
    const files = own.flatMap((line) => line.split(" ").slice(0, -1)).filter((path) => path !== ".");
    const allowed = readFileSync(`${folder}/Dockerfile.dockerignore`, "utf8").split("\n");
    expect(files.filter((path) => !existsSync(path) || !allowed.includes(`!${path}`))).toEqual([]);
    const let_through = allowed.filter((line) => line.startsWith("!")).map((line) => line.slice(1));
    expect(let_through.filter((path) => !existsSync(path))).toEqual([]);
  });

  it("contains every folder of the package except deploy", () => {
    const { files } = JSON.parse(readFileSync("package.json", "utf8")) as { files: string[] };
    const folders = files
      .filter((path) => !path.startsWith("!"))
      .map((path) => path.split("/")[0] ?? "")
      .filter((path) => !path.includes(".") && path !== path.toUpperCase() && path !== "deploy");
    expect(folders).toEqual(expect.arrayContaining(["dist", "proto", "docs"]));
    expect(folders.filter((path) => !dockerfile.includes(`/app/${path} ./${path}`))).toEqual([]);
  });

  it("listens on its exposed ports, and stores its data in the volume", () => {
    expect(instructions("EXPOSE").join(" ").split(" ")).toEqual([setting("server.port"), setting("server.grpc_port")]);
    expect(instructions("ENV").join()).toContain("UIS_DATA_DIR=/data");
    expect(instructions("HEALTHCHECK").join()).toContain(`127.0.0.1:${setting("server.port")}/health`);
    const health = /CMD (\[.*\])/.exec(instructions("HEALTHCHECK").join())?.[1] ?? "";
    expect(JSON.parse(health)).toMatchObject(["node", "-e", expect.any(String)]);
  });

  it("uses fixed versions of a Node release that is still maintained", () => {
    const images = instructions("FROM").map((line) => line.split(" ")[0] ?? "");
    expect(new Set(images)).toEqual(new Set(["node:24-bookworm-slim"]));
  });

  it("sets variables that exist", () => {
    const names = instructions("ENV").flatMap((line) => [...line.matchAll(/(\w+)=/g)].map(([, name]) => String(name)));
    expect(names.filter((name) => name !== "NODE_ENV" && !settings.includes(`\`${name}\``))).toEqual([]);
  });
});

describe.each(["compose.yaml", "compose.redis.yaml", "compose.monitoring.yaml"])("deploy/docker/%s", (file) => {
  const { services, volumes } = readCompose(file);
  const uis = services["uis"];

  it("builds the image of this repository, and publishes ports on this machine only", () => {
    expect(uis?.build).toEqual({ context: "../..", dockerfile: "deploy/docker/Dockerfile" });
    expect(uis?.ports?.filter((port) => !port.startsWith("127.0.0.1:"))).toEqual([]);
  });

  it("publishes the exposed ports, and stores its data in a volume", () => {
    const inside = uis?.ports?.map((port) => port.split(":").at(-1));
    expect(inside).toEqual(instructions("EXPOSE").join(" ").split(" "));
    expect(uis?.volumes).toEqual(instructions("VOLUME").map((path) => `data:${path}`));
  });

  it("gives no service more rights than it needs", () => {
    for (const [name, { build, user, cap_drop }] of Object.entries(services)) {
      expect([name, cap_drop, user !== undefined || build !== undefined]).toEqual([name, ["ALL"], true]);
    }
    expect(uis?.read_only).toBe(true);
  });

  it("has a health check for every service, and a stop period that lets requests finish", () => {
    const unasked = Object.entries(services).filter(([, { healthcheck, build }]) => !healthcheck && !build);
    expect(unasked).toEqual([]);
    expect(Number.parseInt(uis?.stop_grace_period ?? "", 10)).toBeGreaterThan(125);
  });

  it("names volumes and variables that exist", () => {
    const sources = Object.values(services).flatMap((service) =>
      (service.volumes ?? []).map((each) => each.split(":")[0] ?? ""),
    );
    const [files, named] = [
      sources.filter((one) => one.startsWith(".")),
      sources.filter((one) => !one.startsWith(".")),
    ];
    expect(named.toSorted()).toEqual(Object.keys(volumes).toSorted());
    expect(files.filter((file) => !existsSync(join(folder, file)))).toEqual([]);
    const variables = Object.keys(uis?.environment ?? {});
    expect(variables.filter((name) => !settings.includes(`\`${name}\``))).toEqual([]);
  });
});

describe("deploy/docker/compose.redis.yaml", () => {
  const { services } = readCompose("compose.redis.yaml");

  it("configures Redis as docs/state.md requires", () => {
    const command = services["redis"]?.command?.join(" ") ?? "";
    expect(command).toMatch(/^sh -c .*redis-check-aof --fix .*exec redis-server /s);
    const options = [
      "--appendonly yes",
      "--appendfsync always",
      "--aof-load-truncated no",
      "--maxmemory-policy noeviction",
    ];
    for (const option of options) {
      expect(command).toContain(option);
    }
    expect(services["uis"]?.environment?.["REDIS_URL"]).toBe("redis://redis:6379");
  });

  it("does not start without a master key, and contains none", () => {
    expect(services["uis"]?.environment?.["UIS_MASTER_KEY"]).toMatch(/^\$\{UIS_MASTER_KEY:\?.+\}$/);
  });
});

describe("deploy/docker/compose.monitoring.yaml", () => {
  const { services } = readCompose("compose.monitoring.yaml");
  const yaml = (file: string) => parse(readFileSync(file, "utf8")) as Record<string, unknown>;

  it("gives Prometheus the token that the service requires, at the address on which it listens", () => {
    const { UIS_OPS_HOST: host, UIS_SERVER_OPS_TOKEN_FILE: file } = services["uis"]?.environment ?? {};
    expect(host).toBe("0.0.0.0");
    expect([services["uis"]?.secrets, services["prometheus"]?.secrets]).toEqual([["ops_token"], ["ops_token"]]);
    expect(yaml("deploy/prometheus/prometheus.yml")).toMatchObject({
      rule_files: ["alerts.yml"],
      scrape_configs: [
        {
          authorization: { credentials_file: file },
          static_configs: [{ targets: [`uis:${setting("server.ops_port")}`] }],
        },
      ],
    });
  });

  it("gives Grafana the dashboard and its data source", () => {
    const mounted = services["grafana"]?.volumes?.map((volume) => volume.split(":")[1]);
    const folder = "/etc/grafana/dashboards";
    expect(mounted).toEqual(expect.arrayContaining(["/etc/grafana/provisioning", `${folder}/unified-inference.json`]));
    const providers = yaml("deploy/grafana/provisioning/dashboards/unified-inference.yaml")["providers"];
    expect(providers).toMatchObject([{ type: "file", options: { path: folder } }]);
    const datasources = yaml("deploy/grafana/provisioning/datasources/prometheus.yaml")["datasources"];
    expect(datasources).toMatchObject([{ type: "prometheus", url: "http://prometheus:9090", isDefault: true }]);
  });

  it("does not start without a password for Grafana, and contains none", () => {
    expect(services["grafana"]?.environment?.["GF_SECURITY_ADMIN_PASSWORD"]).toMatch(/^\$\{GRAFANA_PASSWORD:\?.+\}$/);
  });
});
