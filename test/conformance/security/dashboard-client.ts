import type { OutgoingHttpHeaders } from "node:http";
import { type HttpAnswer, request } from "../../support/connect-http.js";
import type { RunningService } from "../../support/start-service.js";

/** Acts like the browser of a dashboard user: keeps cookies and sends its origin. */
export class DashboardClient {
  readonly #service: Pick<RunningService, "http">;
  readonly #localAddress: string | undefined;
  /** The session cookie; null without a session. */
  cookie: string | null = null;
  /** The cookie of a browser that has signed in before. */
  browserCookie: string | null = null;

  /** `localAddress`: source address of its connections, any of 127.0.0.0/8. */
  constructor(service: Pick<RunningService, "http">, localAddress?: string) {
    this.#service = service;
    this.#localAddress = localAddress;
  }

  /** Calls one RPC in Connect's JSON. `more`: headers that are added or replace the default ones. */
  async call(rpc: string, message: object = {}, more: OutgoingHttpHeaders = {}): Promise<HttpAnswer> {
    const { http } = this.#service;
    const headers = {
      "content-type": "application/json",
      origin: http,
      cookie: [this.cookie, this.browserCookie].filter((cookie) => cookie !== null).join("; ") || undefined,
      ...more,
    };
    const url = `${http}/unified.admin.v1.${rpc}`;
    const body = JSON.stringify(message);
    const answer = await request(url, withoutUndefined(headers), body, "POST", this.#localAddress);
    for (const kept of answer.headers["set-cookie"] ?? []) {
      const cookie = kept.includes("Max-Age=0") ? null : (kept.split(";")[0] ?? null);
      if (kept.startsWith("uis_browser=")) this.browserCookie = cookie;
      else this.cookie = cookie;
    }
    return answer;
  }
}

export function jsonOf({ body }: HttpAnswer): Record<string, unknown> {
  return JSON.parse(body.toString()) as Record<string, unknown>;
}

function withoutUndefined(headers: OutgoingHttpHeaders): OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined));
}
