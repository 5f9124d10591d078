/** A request as code to copy. The API key is the environment variable UIS_API_KEY. */
import type { ListenersJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import { type ApiRequest, messagesRequest, responsesRequest } from "./chat-apis.js";
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

/** An API that a chat can use. */
export type ChatApi = "chat" | "responses" | "messages";

/** Parts of the code in the languages that use HTTP. */
interface Endpoint {
  /** Path below `/v1`. */
  readonly path: string;
  /** The resource of the client in both SDKs. */
  readonly resource: string;
  /** Lines that print the answer. */
  readonly python: readonly string[];
  readonly typeScript: readonly string[];
}

const endpoints = {
  chat: {
    path: "chat/completions",
    resource: "chat.completions",
    python: [
      "for chunk in answer:",
      "    for choice in chunk.choices:",
      '        print(choice.delta.content or "", end="", flush=True)',
    ],
    typeScript: ['for await (const { choices } of answer) process.stdout.write(choices[0]?.delta.content ?? "");'],
  },
  responses: {
    path: "responses",
    resource: "responses",
    python: [
      "for event in answer:",
      '    if event.type == "response.output_text.delta":',
      '        print(event.delta, end="", flush=True)',
    ],
    typeScript: [
      "for await (const event of answer) {",
      '  if (event.type === "response.output_text.delta") process.stdout.write(event.delta);',
      "}",
    ],
  },
  messages: {
    path: "messages",
    resource: "messages",
    python: [
      "for event in answer:",
      '    if event.type == "content_block_delta" and event.delta.type == "text_delta":',
      '        print(event.delta.text, end="", flush=True)',
    ],
    typeScript: [
      "for await (const event of answer) {",
      '  if (event.type !== "content_block_delta" || event.delta.type !== "text_delta") continue;',
      "  process.stdout.write(event.delta.text);",
      "}",
    ],
  },
  completion: {
    path: "completions",
    resource: "completions",
    python: [
      "for chunk in answer:",
      "    for choice in chunk.choices:",
      '        print(choice.text, end="", flush=True)',
    ],
    typeScript: ['for await (const { choices } of answer) process.stdout.write(choices[0]?.text ?? "");'],
  },
  embeddings: {
    path: "embeddings",
    resource: "embeddings",
    python: ["for item in answer.data:", "    print(item.index, item.embedding[:4])"],
    typeScript: ["for (const { index, embedding } of answer.data) console.log(index, embedding.slice(0, 4));"],
  },
} as const satisfies Record<ChatApi | PlaygroundRequest["kind"], Endpoint>;

const rpcs = { chat: "StreamChatCompletion", completion: "StreamCompletion", embeddings: "CreateEmbeddings" } as const;

/** The SDK of an API. Anthropic's adds `/v1` to the base URL itself. */
const openAiSdk = { path: "/v1", name: "OpenAI", python: "openai", typeScript: "openai" };
const anthropicSdk = { path: "", name: "Anthropic", python: "anthropic", typeScript: "@anthropic-ai/sdk" };

/** A request in the form of one API. */
interface ApiCall extends ApiRequest {
  readonly endpoint: Endpoint;
  readonly isAnthropic: boolean;
}

/** Converts the request to an API. Only chats have more than one. */
function callOf(request: PlaygroundRequest, api: ChatApi): ApiCall {
  const isChat = request.kind === "chat";
  const endpoint = endpoints[isChat ? api : request.kind];
  const isAnthropic = isChat && api === "messages";
  if (!isChat || api === "chat") return { endpoint, isAnthropic, body: request.openai, omitted: [] };
  const toApi = api === "responses" ? responsesRequest : messagesRequest;
  return { endpoint, isAnthropic, ...toApi(request.parts) };
}

export interface Example {
  readonly text: string;
  /** Parameters, by their names in chat completions, that the API does not have. */
  readonly omitted: readonly string[];
}

export function exampleOf(
  language: Language,
  request: PlaygroundRequest,
  address: Address,
  api: ChatApi = "chat",
): Example {
  if (language === "gRPC") return { text: grpc(request, address), omitted: [] };
  const call = callOf(request, api);
  const write = { curl, Python: python, TypeScript: typeScript }[language];
  return { text: write(call, address), omitted: call.omitted };
}

function curl({ endpoint, isAnthropic, body }: ApiCall, { base }: Address): string {
  const headers = isAnthropic
    ? ['  -H "x-api-key: $UIS_API_KEY" \\', "  -H 'anthropic-version: 2023-06-01' \\"]
    : ['  -H "authorization: Bearer $UIS_API_KEY" \\'];
  return [
    `curl --no-buffer ${inShell(`${base}/v1/${endpoint.path}`)} \\`,
    ...headers,
    "  -H 'content-type: application/json' \\",
    `  -d ${inShell(JSON.stringify(body, null, 2))}`,
  ].join("\n");
}

/** A command to run in the package's folder, whose `proto` contains the schema. */
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

function python({ endpoint, isAnthropic, body }: ApiCall, { base }: Address): string {
  const { path, name: sdk, python } = isAnthropic ? anthropicSdk : openAiSdk;
  return [
    "import os",
    `from ${python} import ${sdk}`,
    "",
    `client = ${sdk}(base_url=${JSON.stringify(base + path)}, api_key=os.environ["UIS_API_KEY"])`,
    `answer = client.${endpoint.resource}.create(`,
    ...Object.entries(body).map(([name, value]) => `    ${name}=${inPython(value, "    ")},`),
    ")",
    ...endpoint.python,
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

function typeScript({ endpoint, isAnthropic, body }: ApiCall, { base }: Address): string {
  const { path, name: sdk, typeScript } = isAnthropic ? anthropicSdk : openAiSdk;
  return [
    'import { env } from "node:process";',
    `import ${sdk} from "${typeScript}";`,
    "",
    `const client = new ${sdk}({ baseURL: ${JSON.stringify(base + path)}, apiKey: env.UIS_API_KEY });`,
    `const answer = await client.${endpoint.resource}.create(${JSON.stringify(body, null, 2)});`,
    ...endpoint.typeScript,
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
