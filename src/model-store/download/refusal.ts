import { SourceUnavailable } from "../model-errors.js";
import type { HttpAnswer } from "./http-client.js";

/** The error of an answer that is no file. */
export function refusal({ status, host }: HttpAnswer, what: string): SourceUnavailable {
  return new SourceUnavailable(`${host} answered ${status} for ${what}: ${advice(status)}`, { status });
}

function advice(status: number): string {
  switch (status) {
    case 401:
      return "it wants a token (HF_TOKEN), or there is no such repository";
    case 403:
      return "access is refused; accept the model's terms there, check HF_TOKEN, or ask who runs the network";
    case 404:
      return "there is no such file; check its name and revision";
    case 407:
      return "the proxy wants a login; put it into HTTPS_PROXY";
    case 429:
      return "it is asked too often; try again later";
    default:
      return "try again later, or use another source";
  }
}
