import type { OutgoingHttpHeaders } from "node:http";
import { type HttpAnswer, request } from "../../support/connect-http.js";
import type { RunningService } from "../../support/start-service.js";

/** The browser of a dashboard user: keeps its cookie and sends its origin. */
export class DashboardClient {
  readonly #service: Pick<RunningService, "http">;
  cookie: string | null = null;

  constructor(service: Pick<RunningService, "http">) {
    this.#service = service;
  }

  /** One RPC in Connect's JSON; `more` are headers in addition, or in the place of its own. */
  async call(rpc: string, message: object = {}, more: OutgoingHttpHeaders = {}): Promise<HttpAnswer> {
    const { http } = this.#service;
    const headers = {
      "content-type": "application/json",
      origin: http,
      ...(this.cookie === null ? {} : { cookie: this.cookie }),
      ...more,
    };
    const answer = await request(`${http}/unified.admin.v1.${rpc}`, withoutUndefined(headers), JSON.stringify(message));
    const [kept] = answer.headers["set-cookie"] ?? [];
    if (kept !== undefined) this.cookie = kept.includes("Max-Age=0") ? null : (kept.split(";")[0] ?? null);
    return answer;
  }
}

export function jsonOf({ body }: HttpAnswer): Record<string, unknown> {
  return JSON.parse(body.toString()) as Record<string, unknown>;
}

function withoutUndefined(headers: OutgoingHttpHeaders): OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined));
}
