/** A request as code to copy. The API key is the environment variable UIS_API_KEY. */
import type { ListenersJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import type { PlaygroundRequest } from "./requests.js";

export type Language = "curl" | "Python" | "TypeScript" | "gRPC";

/** Addresses of the service. */
export interface Address {
  /** `https://host/prefix`, without a trailing slash. */
  readonly base: string;
  /** Host and port of the gRPC listener. */
  readonly grpc: string;
  /** Whether the gRPC listener uses TLS. */
  readonly isTls: boolean;
}

const paths = { chat: "chat/completions", completion: "completions", embeddings: "embeddings" } as const;
const rpcs = { chat: "StreamChatCompletion", completion: "StreamCompletion", embeddings: "CreateEmbeddings" } as const;
const resources = { chat: "chat.completions", completion: "completions", embeddings: "embeddings" } as const;

export function exampleOf(language: Language, request: PlaygroundRequest, address: Address): string {
  switch (language) {
    case "curl":
      return curl(request, address);
    case "Python":
      return python(request, address);
    case "TypeScript":
      return typeScript(request, address);
    case "gRPC":
      return grpc(request, address);
  }
}

function curl({ kind, openai }: PlaygroundRequest, { base }: Address): string {
  return [
    `curl --no-buffer ${inShell(`${base}/v1/${paths[kind]}`)} \\`,
    '  -H "authorization: Bearer $UIS_API_KEY" \\',
    "  -H 'content-type: application/json' \\",
    `  -d ${inShell(JSON.stringify(openai, null, 2))}`,
  ].join("\n");
}

/** Runs in the package's folder, whose `proto` contains the schema. */
function grpc({ kind, params }: PlaygroundRequest, { grpc: host, isTls }: Address): string {
  return [
    `buf curl --schema proto --protocol grpc ${isTls ? "" : "--http2-prior-knowledge "}\\`,
    '  -H "authorization: Bearer $UIS_API_KEY" \\',
    `  -d ${inShell(JSON.stringify({ params }, null, 2))} \\`,
    `  ${inShell(`${isTls ? "https" : "http"}://${host}/unified.inference.v1.InferenceService/${rpcs[kind]}`)}`,
  ].join("\n");
}

/** Quotes for a POSIX shell: single quotes protect everything except single quotes. */
function inShell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

const pythonPrints = {
  chat: [
    "for chunk in answer:",
    "    for choice in chunk.choices:",
    '        print(choice.delta.content or "", end="", flush=True)',
  ],
  completion: [
    "for chunk in answer:",
    "    for choice in chunk.choices:",
    '        print(choice.text, end="", flush=True)',
  ],
  embeddings: ["for item in answer.data:", "    print(item.index, item.embedding[:4])"],
} as const;

function python({ kind, openai }: PlaygroundRequest, { base }: Address): string {
  return [
    "import os",
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url=${JSON.stringify(`${base}/v1`)}, api_key=os.environ["UIS_API_KEY"])`,
    `answer = client.${resources[kind]}.create(`,
    ...Object.entries(openai).map(([name, value]) => `    ${name}=${inPython(value, "    ")},`),
    ")",
    ...pythonPrints[kind],
  ].join("\n");
}

/** A JSON value as a Python literal; string literals are the same in both. */
function inPython(value: unknown, indent: string): string {
  const deeper = `${indent}    `;
  const lines = (items: readonly string[]): string => items.map((item) => `${deeper}${item},\n`).join("");
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[\n${lines(value.map((item) => inPython(item, deeper)))}${indent}]`;
  const members = Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${inPython(item, deeper)}`);
  return `{\n${lines(members)}${indent}}`;
}

const typeScriptPrints = {
  chat: 'for await (const { choices } of answer) process.stdout.write(choices[0]?.delta.content ?? "");',
  completion: 'for await (const { choices } of answer) process.stdout.write(choices[0]?.text ?? "");',
  embeddings: "for (const { index, embedding } of answer.data) console.log(index, embedding.slice(0, 4));",
} as const;

function typeScript({ kind, openai }: PlaygroundRequest, { base }: Address): string {
  return [
    'import { env } from "node:process";',
    'import OpenAI from "openai";',
    "",
    `const client = new OpenAI({ baseURL: ${JSON.stringify(`${base}/v1`)}, apiKey: env.UIS_API_KEY });`,
    `const answer = await client.${resources[kind]}.create(${JSON.stringify(openai, null, 2)});`,
    typeScriptPrints[kind],
  ].join("\n");
}

/** Wildcard and loopback addresses, which do not name a machine. */
const anywhere = /^(0\.0\.0\.0|\[?::\]?|127\..*|localhost|\[?::1\]?)$/;

/** The gRPC address for a browser that reached the dashboard at `hostname`. */
export function grpcAddress(
  { host = "", grpcPort = 0, tls = false }: ListenersJson,
  hostname: string,
): Pick<Address, "grpc" | "isTls"> {
  const name = host === "" || anywhere.test(host) ? hostname : host;
  const bracketed = name.includes(":") && !name.startsWith("[") ? `[${name}]` : name;
  return { grpc: `${bracketed}:${grpcPort}`, isTls: tls };
}
