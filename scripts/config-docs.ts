/**
 * Writes docs/config.md and docs/uis.example.yaml from the configuration's schema. Run it after a change of a setting:
 * `npx tsx scripts/config-docs.ts`. A test compares the files with the output of this script.
 */
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { stringify } from "yaml";
import { wellKnownNames } from "../src/app/config/environment.js";
import {
  listSettings,
  modelJsonSchema,
  type Setting,
  type SettingSchema,
  upstreamJsonSchema,
} from "../src/app/config/setting-list.js";

/** The generated files by path from the repository's root. */
export function renderConfigFiles(): ReadonlyMap<string, string> {
  return new Map([
    ["docs/config.md", renderPage()],
    ["docs/uis.example.yaml", renderExample()],
  ]);
}

const introduction = `# Configuration

<!-- Written by scripts/config-docs.ts from the schema in src/app/config. Change the schema, then run it. -->

The value of a setting is that of the first of these which sets it: a flag, the environment, the configuration file. Otherwise it is the
default below. The file is \`--config\`, else \`UIS_CONFIG\`, else \`uis.yaml\` in the working directory if it exists.
[uis.example.yaml](uis.example.yaml) has every setting of this version. Run \`uis config schema > uis.schema.json\` in the folder of the
file, and editors complete settings.

- Unknown names are errors with line, column and the most similar known name. \`uis config check\` lists all errors.
- \`\${VAR}\` and \`\${VAR:-default}\` expand in values; \`$\${\` is a literal \`\${\`. The default also replaces an empty variable. The
  content of a variable never becomes YAML.
- Times are \`250ms\`, \`30s\`, \`2m\`, \`5h\`, \`30d\`. Sizes are bytes, or \`64KiB\`, \`20MiB\`, \`1GiB\`.
- In the environment, a list is comma-separated or YAML: \`UIS_SERVER_CORS_ORIGINS=https://a.example,https://b.example\`.
- SIGHUP reloads the file and the environment. If they are valid, models, prices, \`rate_limits\`, TLS files and the settings of \`limits\`
  without a note about a restart are replaced, and \`server.ops_token_file\` is read again; other changes need a restart, and the log
  names them. An invalid configuration changes nothing. TLS files are also reloaded when they change on disk.

## Secrets

Secrets come only from the environment: from a variable, or from the file that \`<name>_FILE\` names, without one line break at the end
of the file. Setting both is an error. \`UIS_API_KEY\`, \`HF_TOKEN\`, \`REDIS_URL\` and \`UIS_STATE_REDIS_URL\` may also come from such a
file. Keys of upstreams may also be in files that the configuration names.

| variable | meaning |
| --- | --- |
| \`UIS_ADMIN_TOKEN\` | Credential of the administrator, in addition to the one in \`<data_dir>/admin.token\`. 16 to 256 printable characters. |
| \`UIS_BOOTSTRAP_API_KEY\` | An API key of your own, registered at start instead of a generated one. 8 to 256 printable characters. |
| \`UIS_ADMIN_PASSWORD\` | The administrator's password for the dashboard. 12 to 1024 characters. It is set at every start: change it here. |
| \`UIS_MASTER_KEY\` | Encrypts stored secrets: base64 of 32 bytes, \`openssl rand -base64 32\`. Required with Redis, the same on all replicas; otherwise generated once as \`<data_dir>/master.key\`. |
| \`UIS_UPSTREAM_<NAME>_KEY\` | API key of the upstream with that name, in upper case, with \`_\` for every other character than a letter or digit: \`UIS_UPSTREAM_GPU_1_KEY\` for \`gpu-1\`. It takes precedence over key, key_file and keys_file. |

Commands that call a running service use \`--url\`, \`UIS_URL\`, \`<data_dir>/service.json\` or the address in the configuration, in this
order, with \`UIS_ADMIN_TOKEN\`, else the token in the data folder. The latter is sent only to a service that proves
(\`GET /identity\`) that it holds the same token. \`uis run\` prefers \`UIS_API_KEY\`; \`uis usage\` uses it if neither token exists.
\`uis webhooks add\` and \`uis upstreams add\` have a \`--url\` of their own: there, \`--service-url\` is the address of the service.

## Traces

Spans are sent as OTLP over HTTP if \`OTEL_EXPORTER_OTLP_ENDPOINT\` or \`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT\` is set, with the headers in
\`OTEL_EXPORTER_OTLP_HEADERS\`. \`OTEL_SERVICE_NAME\`, \`OTEL_RESOURCE_ATTRIBUTES\`, \`OTEL_TRACES_SAMPLER\`,
\`OTEL_TRACES_SAMPLER_ARG\` and \`OTEL_SDK_DISABLED\` have their usual meanings. Traces need three packages that are not
installed automatically: \`npm install @opentelemetry/sdk-trace-base @opentelemetry/resources
@opentelemetry/exporter-trace-otlp-http\`. A span contains no content except the stop sequences of a request.
[metrics.md](metrics.md) lists the metrics, which need no setting.
`;

function renderPage(): string {
  const ownTable = ["models", "upstreams"];
  const settings = listSettings().filter(({ schema, path }) => !isLater(schema) && !ownTable.includes(path[0] ?? ""));
  const sections = [...new Set(settings.map(groupOf))].map((group) =>
    renderGroup(
      group,
      settings.filter((setting) => groupOf(setting) === group),
    ),
  );
  return [introduction, ...sections, renderUpstreams(), renderModels(), renderLater()].join("\n");
}

function groupOf({ path }: Setting): string {
  return path.length === 1 ? "general" : (path[0] ?? "general");
}

function renderGroup(group: string, settings: readonly Setting[]): string {
  const rows = settings.map(({ path, environmentName, schema }) => {
    const names = [...shortNames(path), environmentName].map((name) => `\`${name}\``).join(", ");
    return `| \`${path.join(".")}\` | ${defaultOf(schema)} | ${meaningOf(schema)} | ${names} |`;
  });
  return `## ${group}\n\n| setting | default | meaning | environment |\n| --- | --- | --- | --- |\n${rows.join("\n")}\n`;
}

function shortNames(path: readonly string[]): string[] {
  return Object.entries(wellKnownNames).flatMap(([name, of]) => (of.join() === path.join() ? [name] : []));
}

/** The entries have names of the operator's choice, so their settings have no environment names of their own. */
function renderUpstreams(): string {
  return (
    "## upstreams\n\nInference servers and providers by name: 1 to 64 of a-z, A-Z, 0-9 and . _ -. [upstreams.md](upstreams.md) has examples. " +
    `\`UIS_UPSTREAMS\` is all of them as YAML. One entry:\n\n${tableOf(settingsWithin(upstreamJsonSchema(), ""))}`
  );
}

function tableOf(settings: Iterable<[string, SettingSchema]>): string {
  const rows = [...settings].map(([name, schema]) => `| \`${name}\` | ${defaultOf(schema)} | ${meaningOf(schema)} |`);
  return `| setting | default | meaning |\n| --- | --- | --- |\n${rows.join("\n")}\n`;
}

/** The catalog: its entries are lists, so its settings have no environment names of their own. */
function renderModels(): string {
  const model = modelJsonSchema();
  return (
    "## models\n\nA list. Without it the catalog is the pulled and imported models, else the default models; `[]` is no model. `UIS_MODELS` is the list as YAML. One entry:\n\n" +
    tableOf(settingsWithin(model, ""))
  );
}

function* settingsWithin(schema: SettingSchema | undefined, prefix: string): Iterable<[string, SettingSchema]> {
  const { properties = {} } = schema ?? {};
  for (const [name, inner] of Object.entries(properties)) {
    if (isLater(inner) || isGroupOfLater(inner)) continue;
    yield [`${prefix}${name}`, inner];
    if (name !== "deployments") {
      yield* settingsWithin(inner, `${prefix}${name}.`);
      continue;
    }
    // The others are described once, at the model.
    const own = Object.entries(inner.items?.properties ?? {}).filter(
      ([key, one]) => key !== "engine" && !isDeepStrictEqual(one, properties[key]),
    );
    for (const [key, one] of own) yield [`${prefix}${name}[].${key}`, one];
  }
}

function isGroupOfLater({ properties }: SettingSchema): boolean {
  return properties !== undefined && Object.values(properties).every(isLater);
}

function renderLater(): string {
  const model = modelJsonSchema().properties ?? {};
  const names = [
    ...listSettings().flatMap(({ path, schema }) => (isLater(schema) ? [path.join(".")] : [])),
    ...Object.entries(model).flatMap(([name, schema]) =>
      isLater(schema) || isGroupOfLater(schema) ? [`models[].${name}`] : [],
    ),
  ];
  if (names.length === 0) return "";
  return (
    "## Not in this version\n\nThese settings accept only their defaults, so that no accepted setting is ignored: " +
    `${names.map((name) => `\`${name}\``).join(", ")}.\n`
  );
}

function isLater(schema: SettingSchema): boolean {
  return "const" in schema;
}

function defaultOf(schema: SettingSchema): string {
  return schema.default === undefined ? "" : `\`${JSON.stringify(schema.default)}\``;
}

function meaningOf(schema: SettingSchema): string {
  const values = schema.enum === undefined ? "" : ` One of ${schema.enum.map((value) => `\`${value}\``).join(", ")}.`;
  const range = schema.type === "integer" ? ` ${schema.minimum} to ${schema.maximum}.` : "";
  return `${schema.description ?? ""}${values}${range}`.trim().replaceAll("|", "\\|");
}

const exampleModels = [
  { id: "test-chat", engine: "scripted", scripted: { text: "Hello from the script.", token_delay_ms: 10 } },
  { id: "test-embed", engine: "scripted", scripted: { dimensions: 8 } },
];

function renderExample(): string {
  const tree: Record<string, unknown> = {};
  for (const { path, schema } of listSettings()) {
    if (isLater(schema)) continue;
    let group = tree;
    for (const name of path.slice(0, -1)) {
      group[name] ??= {};
      group = group[name] as Record<string, unknown>;
    }
    group[path.at(-1) ?? ""] = path[0] === "models" ? exampleModels : schema.default;
  }
  return (
    "# yaml-language-server: $schema=uis.schema.json\n" +
    "# Every setting with its default, and two scripted models. docs/config.md says what each means.\n" +
    stringify(tree, { lineWidth: 120 })
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [path, text] of renderConfigFiles()) writeFileSync(new URL(`../${path}`, import.meta.url), text);
}
