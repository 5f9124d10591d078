import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ConfigSources, loadConfig } from "../../../../src/app/config/load-config.js";
import { ConfigError, type ConfigProblem } from "../../../../src/app/config/problem.js";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-config-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

async function load(text: string | null, rest: Partial<ConfigSources> = {}) {
  if (text !== null) await writeFile(join(folder, "uis.yaml"), text);
  return (await loadConfig({ env: {}, cwd: folder, ...rest })).config;
}

async function problemsOf(text: string | null, rest: Partial<ConfigSources> = {}): Promise<readonly ConfigProblem[]> {
  const error: unknown = await load(text, rest).catch((thrown: unknown) => thrown);
  if (error instanceof ConfigError) return error.problems;
  throw new Error("the configuration was accepted");
}

const flag = (path: string[], value: unknown) => ({ path, value, from: `--${path.at(-1)}` });

describe("precedence of settings", () => {
  const file = "server: { port: 1001, host: 127.0.0.2 }\n";

  it("values of the file override defaults", async () => {
    expect((await load(null)).server).toMatchObject({
      host: "127.0.0.1",
      port: 8080,
      grpc_port: 50051,
      ops_port: 9464,
    });
    expect((await load(file)).server).toMatchObject({ port: 1001, host: "127.0.0.2", grpc_port: 50051 });
  });

  it("the environment overrides the file, and its long names override the short ones", async () => {
    expect((await load(file, { env: { PORT: "1002" } })).server.port).toBe(1002);
    expect((await load(file, { env: { PORT: "1002", UIS_SERVER_PORT: "1003" } })).server.port).toBe(1003);
    expect((await load(file, { env: { PORT: "" } })).server.port).toBe(1001);
  });

  it("flags override everything", async () => {
    const sources = {
      env: { PORT: "1002" },
      flags: [flag(["server", "port"], 1004), flag(["server", "host"], undefined)],
    };
    expect((await load(file, sources)).server).toMatchObject({ port: 1004, host: "127.0.0.2" });
  });

  it("the file of --config overrides that of UIS_CONFIG", async () => {
    await writeFile(join(folder, "a.yaml"), "server: { port: 1 }\n");
    await writeFile(join(folder, "b.yaml"), "server: { port: 2 }\n");
    expect((await load(file, { env: { UIS_CONFIG: "a.yaml" } })).server.port).toBe(1);
    expect((await load(file, { env: { UIS_CONFIG: "a.yaml" }, file: "b.yaml" })).server.port).toBe(2);
  });
});

describe("a setting from an environment variable", () => {
  it("can be a number, a text, a list or another kind of value", async () => {
    const env = {
      UIS_LIMITS_BODY_BYTES_MAX: "5MiB",
      UIS_LIMITS_N_MAX: "10",
      UIS_LIMITS_STALL: "2s",
      UIS_GRPC_REFLECTION: "true",
      UIS_SERVER_CORS_ORIGINS: "https://a.example, https://b.example",
      UIS_SERVER_TLS_CERT_FILE: "1.pem",
      UIS_SERVER_TLS_KEY_FILE: "2.pem",
      UIS_MODELS: "[{ id: m, engine: scripted }]",
      UIS_DATA_DIR: "/somewhere",
      LOG_LEVEL: "WARN",
    };
    const config = await load(null, { env });
    expect(config.limits).toMatchObject({ body_bytes_max: 5 * 1024 ** 2, n_max: 10, stall: 2000 });
    expect(config.grpc.reflection).toBe(true);
    expect(config.server.cors_origins).toEqual(["https://a.example", "https://b.example"]);
    expect(config.server.tls).toMatchObject({ cert_file: "1.pem", key_file: "2.pem" });
    expect(config.models?.map((model) => model.id)).toEqual(["m"]);
    expect(config.data_dir).toBe("/somewhere");
    expect(config.log.level).toBe("warn");
  });

  it("is reported as an error, like one in the file, if its value is fixed now", async () => {
    const constant = { path: "limits.tools_max", hint: "remove it" };
    expect(await problemsOf("limits:\n  tools_max: 5\n")).toEqual([
      { line: 2, column: 3, message: "is no longer a setting: it is always 128", ...constant },
    ]);
    const message = "UIS_LIMITS_TOOLS_MAX is no longer a setting: limits.tools_max is always 128";
    const env = { UIS_LIMITS_TOOLS_MAX: "5" };
    expect(await problemsOf("", { env })).toEqual([{ line: null, column: null, message, ...constant }]);
  });

  it("with an invalid value causes an error with the variable's name and no line number", async () => {
    expect(await problemsOf(null, { env: { PORT: "eighty" } })).toEqual([
      {
        line: null,
        column: null,
        path: "server.port",
        message: "must be a whole number between 0 and 65535 (set by PORT)",
        hint: null,
      },
    ]);
  });
});

describe("a secret of the environment", () => {
  const stored = async (text: string) => {
    await writeFile(join(folder, "secret"), text);
    return join(folder, "secret");
  };

  it.each(["REDIS_URL", "UIS_STATE_REDIS_URL"])("%s can also be read from a file", async (name) => {
    const env = { [`${name}_FILE`]: await stored("redis://:hunter2@store:6379\n") };
    expect((await load("state: { redis_url: redis://other }\n", { env })).state.redis_url).toBe(
      "redis://:hunter2@store:6379",
    );
  });

  it("is not shown in the error for an invalid value, which names the variable of the file", async () => {
    const env = { REDIS_URL_FILE: await stored("hunter2") };
    const [problem] = await problemsOf(null, { env });
    expect(problem).toMatchObject({ path: "state.redis_url", message: expect.stringContaining("REDIS_URL_FILE") });
    expect(JSON.stringify(problem)).not.toContain("hunter2");
  });

  it.each(["REDIS_URL", "UIS_STATE_REDIS_URL", "HF_TOKEN"])(
    "%s is rejected if its file is also set, or cannot be read",
    async (name) => {
      const file = `${name}_FILE`;
      const empty = { line: null, column: null, hint: null };
      expect(await problemsOf(null, { env: { [name]: "redis://h", [file]: "f" } })).toEqual([
        { ...empty, path: name, message: `is set, and ${file} too: set one of them` },
      ]);
      expect(await problemsOf(null, { env: { [file]: join(folder, "gone") } })).toEqual([
        {
          ...empty,
          path: file,
          message: expect.stringMatching(/^cannot be read: /),
          hint: "correct the path, or make the file readable for this user",
        },
      ]);
    },
  );
});

describe("problems of a configuration", () => {
  it.each([
    ["models: [{ id: a, engine: scripted, prices: { inptu: 3 } }]", "models[0].prices.inptu", "input"],
    [
      "models: [{ id: a, engine: scripted, prices: [{ from: 2026-01-01T00:00:00Z, outptu: 3 }] }]",
      "models[0].prices[0].outptu",
      "output",
    ],
    [
      "rate_limits: { models: { a: { request_per_minute: 3 } } }",
      "rate_limits.models.a.request_per_minute",
      "requests_per_minute",
    ],
  ])(
    "include a hint for a misspelt name, also inside groups with alternatives or free names: %s",
    async (text, path, meant) => {
      expect(await problemsOf(`${text}\n`)).toMatchObject([
        { path, message: "unknown setting", hint: `did you mean "${meant}"?` },
      ]);
    },
  );

  it("are all reported together, each with line, column, path and hint", async () => {
    const text = "server: { prt: 1 }\nmodels:\n  - id: a\n    engine: scripted\n    slot: 3\n    slots: none\n";
    expect(await problemsOf(text)).toEqual([
      { line: 1, column: 11, path: "server.prt", message: "unknown setting", hint: 'did you mean "port"?' },
      {
        line: 6,
        column: 5,
        path: "models[0].slots",
        message: "must be a whole number between 1 and 65536",
        hint: null,
      },
      { line: 5, column: 5, path: "models[0].slot", message: "unknown setting", hint: 'did you mean "slots"?' },
    ]);
  });

  it("include a named file that does not exist", async () => {
    const [problem] = await problemsOf(null, { file: "gone.yaml" });
    expect(problem?.message).toBe(`the configuration file ${join(folder, "gone.yaml")} does not exist`);
    expect(problem?.hint).toBe("create it with uis config init, or name another file with --config or UIS_CONFIG");
  });

  it("include settings that contradict each other", async () => {
    const paths = async (text: string) => (await problemsOf(text)).map((problem) => problem.path);
    expect(await paths("server: { tls: { cert_file: a } }\n")).toEqual(["server.tls.key_file"]);
    expect(await paths("server: { tls: { client_ca_file: a } }\n")).toEqual(["server.tls.client_ca_file"]);
    expect(await paths("server: { port: 7, grpc_port: 7 }\n")).toEqual(["server.grpc_port"]);
    const twice = "models: [{ id: a, engine: scripted }, { id: a, engine: scripted }]\n";
    expect(await paths(twice)).toEqual(["models[1].id"]);
    expect(await paths("models: [{ id: a }]\n")).toEqual(["models[0].engine"]);
    const both = "models: [{ id: a, engine: scripted, deployments: [{ engine: scripted }] }]\n";
    expect(await paths(both)).toEqual(["models[0].engine"]);
    for (const mixed of ["chat, embeddings", "completions, rerank"]) {
      const text = `models: [{ id: a, engine: scripted, capabilities: [${mixed}] }]\n`;
      expect(await paths(text)).toEqual(["models[0].capabilities"]);
    }
  });
});

describe("a configuration with hundreds of models", () => {
  const model = (i: number): string =>
    `  - { id: model-${i}, engine: scripted, scripted: { text: hello, tokens: 4 } }\n`;
  const models = (count: number): string => `models:\n${Array.from({ length: count }, (_, i) => model(i)).join("")}`;

  it("is validated in slices, between which other work runs (E-15)", async () => {
    // Not in a file, because reading its text is divided, too.
    const given = Array.from({ length: 5_000 }, (_, i) => ({
      id: `m${i}`,
      engine: "scripted",
      scripted: { tokens: 4 },
    }));
    const flags = [flag(["models"], given)];
    let turns = 0;
    const count = (): void => {
      turns += 1;
      turn = setImmediate(count);
    };
    let turn = setImmediate(count);
    const config = await load(null, { flags });
    clearImmediate(turn);
    expect(config.models?.[4_999]).toMatchObject({ id: "m4999", scripted: { tokens: 4 } });
    // They take about 100 ms, and a slice 1 ms; reading the file has a few turns of its own.
    expect(turns).toBeGreaterThan(20);
  });

  it("is rejected with the problems of all models and of other settings", async () => {
    const text = `${models(300)}  - { id: bad, engine: scripted, slots: none }\nserver: { port: none }\n`;
    const problems = await problemsOf(text);
    expect(problems.map(({ path }) => path).toSorted()).toEqual(["models[300].slots", "server.port"]);
    expect(problems.every(({ line }) => line !== null)).toBe(true);
  });
});

describe("a configuration with all groups of settings", () => {
  const contractExample = `
state: { redis_url: null, durability: every-write }
core: { addresses: [], token: null }
engine: { stall: 30s, circuit_crashes: 5, threads: null }
rate_limits: { default_key: {}, default_account: {}, models: {} }
webhooks: { allow_http: false, allow_private_cidrs: [], allow_ports: [], dns_servers: [], endpoints_max: 20,
            attempt_timeout: 5s, retry_delays: [30s, 2m, 10m, 30m, 2h] }
models: [{ id: a, engine: scripted, prices: { input: 0, cached_input: 0, output: 0 }, fallbacks: [] }]
`;

  it("is accepted", async () => {
    expect((await load(contractExample)).models).toHaveLength(1);
  });
});

describe("settings of roles", () => {
  const redis = "state: { redis_url: redis://h }";

  it("a gateway needs Redis and the addresses of its cores", async () => {
    const problems = await problemsOf(null, { env: { UIS_SERVER_ROLE: "gateway" } });
    expect(problems.map(({ path }) => path)).toEqual(["state.redis_url", "core.addresses"]);
    expect(problems[0]?.message).toContain("is required in the role gateway");
  });

  it.each(["cores:50051", "dns:///cores:50051", "10.0.0.5:50051", "[::1]:50051"])(
    "a gateway takes the address %s",
    async (address) => {
      const text = `server: { role: gateway }\n${redis}\ncore: { addresses: ["${address}"] }\n`;
      expect((await load(text)).core.addresses).toEqual([address]);
    },
  );

  it.each(["cores", "http://cores:50051", "cores:0", "cores:70000", ":50051"])(
    "the address %s is rejected",
    async (address) => {
      const text = `server: { role: gateway }\n${redis}\ncore: { addresses: ["${address}"] }\n`;
      expect((await problemsOf(text)).map(({ path }) => path)).toEqual(["core.addresses[0]"]);
    },
  );

  it("a core token of the wrong form is rejected and not shown, also from a variable", async () => {
    for (const problems of [
      await problemsOf("core: { token: too-short }\n"),
      await problemsOf(null, { env: { UIS_CORE_TOKEN: "too-short" } }),
    ]) {
      expect(problems.map(({ path }) => path)).toEqual(["core.token"]);
      expect(JSON.stringify(problems)).not.toContain("too-short");
    }
  });

  it("a core needs all files of core.tls, or none", async () => {
    const text = "server: { role: core }\ncore: { tls: { ca_file: ca.pem } }\n";
    expect((await problemsOf(text)).map(({ path }) => path)).toEqual(["core.tls.cert_file"]);
  });
});

describe("the setting state.redis_url", () => {
  it.each([
    "redis://h",
    "rediss://user:secret@h:6380/1",
    "redis+sentinel://a,b/main",
    "redis+cluster://a,b,c",
    "a,b,c",
    "redis://a:6379,redis://b:6379",
    "a:7000,b:7000",
  ])("accepts %s, also from the variable", async (url) => {
    expect((await load(`state: { redis_url: "${url}" }\n`)).state.redis_url).toBe(url);
    expect((await load(null, { env: { REDIS_URL: url } })).state.redis_url).toBe(url);
  });

  it("rejects other URLs, and Redis together with state in memory", async () => {
    const paths = async (text: string) => (await problemsOf(text)).map((problem) => problem.path);
    expect(await paths("state: { redis_url: http://h }\n")).toEqual(["state.redis_url"]);
    expect(await paths("state: { redis_url: redis://h, durability: none }\n")).toEqual(["state.durability"]);
  });
});

it("a loaded configuration is immutable", async () => {
  const config = await load("models: [{ id: a, engine: scripted }]\n");
  expect(() => Object.assign(config.server, { port: 1 })).toThrow(TypeError);
  expect(() => Object.assign(config.models?.[0] ?? {}, { id: "b" })).toThrow(TypeError);
});
