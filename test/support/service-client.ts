/** A client of a running service: REST with a key, RPCs over Connect's JSON. */
export interface ClientAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body if it is a JSON object. */
  readonly json: Readonly<Record<string, unknown>>;
  /** `error.code` of REST or `code` of Connect; null without either. */
  readonly code: string | null;
}

export class ServiceClient {
  readonly #http: string;
  readonly #headers: Readonly<Record<string, string>>;

  /** `http`: `http://host:port`, with or without `/v1`. */
  constructor(http: string, credential: string, headers: Readonly<Record<string, string>> = {}) {
    this.#http = http.replace(/\/v1$/, "");
    this.#headers = { authorization: `Bearer ${credential}`, ...headers };
  }

  get(path: string): Promise<ClientAnswer> {
    return this.#ask(path, { headers: this.#headers });
  }

  post(path: string, body: object | string): Promise<ClientAnswer> {
    return this.#ask(path, this.#posted(body));
  }

  delete(path: string): Promise<ClientAnswer> {
    return this.#ask(path, { method: "DELETE", headers: this.#headers });
  }

  /** `rpc`: `unified.admin.v1.ApiKeyService/CreateApiKey`. */
  rpc(rpc: string, message: object = {}): Promise<ClientAnswer> {
    return this.post(`/${rpc}`, message);
  }

  chat(model: string, more: object = {}): Promise<ClientAnswer> {
    return this.post("/v1/chat/completions", { model, messages: [{ role: "user", content: "one two" }], ...more });
  }

  /** Starts a chat stream; resolves with a reader of its body. */
  async stream(model: string): Promise<ReadableStreamDefaultReader<Uint8Array>> {
    const body = { model, messages: [{ role: "user", content: "one two" }], stream: true };
    const response = await fetch(`${this.#http}/v1/chat/completions`, this.#posted(body));
    if (response.body === null) throw new Error(`no stream but ${response.status}`);
    return response.body.getReader();
  }

  #posted(body: object | string): RequestInit {
    const headers = { ...this.#headers, "content-type": "application/json" };
    return { method: "POST", headers, body: typeof body === "string" ? body : JSON.stringify(body) };
  }

  async #ask(path: string, init: RequestInit): Promise<ClientAnswer> {
    const response = await fetch(this.#http + path, init);
    const text = await response.text();
    const json = parseObject(text);
    return { status: response.status, headers: response.headers, text, json, code: codeOf(json) };
  }
}

function parseObject(text: string): Record<string, unknown> {
  if (!text.startsWith("{")) return {};
  return JSON.parse(text) as Record<string, unknown>;
}

function codeOf({ error, code }: Record<string, unknown>): string | null {
  const found = typeof error === "object" && error !== null && "code" in error ? error.code : code;
  return typeof found === "string" ? found : null;
}
