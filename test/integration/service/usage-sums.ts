import type { ServiceProcess } from "../../support/service-process.js";

export interface UsageSum {
  readonly requests: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** Sums of usage by model. */
export type UsageByModel = Readonly<Record<string, UsageSum>>;

const dayMs = 86_400_000;

export function addUp(numbers: readonly number[]): number {
  return numbers.reduce((sum, each) => sum + each, 0);
}

/** Usage of the last two days from `GET /v1/usage`, because a test may run past midnight. */
export async function usageOverRest(service: ServiceProcess, key: string): Promise<UsageByModel> {
  const query = "bucket_width=1d&limit=2&group_by=model";
  const headers = { authorization: `Bearer ${key}` };
  const page = (await (await fetch(`${service.http}/v1/usage?${query}`, { headers })).json()) as {
    readonly data: readonly { readonly results: readonly RestResult[] }[];
  };
  return byModel(
    page.data.flatMap(({ results }) =>
      results.map((result) => ({
        model: result.model,
        requests: result.num_model_requests,
        promptTokens: result.input_tokens,
        completionTokens: result.output_tokens,
      })),
    ),
  );
}

interface RestResult {
  readonly model: string;
  readonly num_model_requests: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
}

/** Usage of the last two days from `UsageService`. */
export async function usageOverRpc(service: ServiceProcess, key: string): Promise<UsageByModel> {
  const response = await fetch(`${service.http}/unified.admin.v1.UsageService/QueryUsage`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({
      startTime: new Date(Date.now() - dayMs).toISOString(),
      groupBy: ["USAGE_GROUP_MODEL"],
    }),
  });
  const { buckets } = (await response.json()) as {
    readonly buckets: readonly { readonly results?: readonly RpcResult[] }[];
  };
  return byModel(
    buckets.flatMap(({ results = [] }) =>
      results.map((result) => ({
        model: result.model,
        requests: Number(result.requests ?? 0),
        promptTokens: Number(result.promptTokens ?? 0),
        completionTokens: Number(result.completionTokens ?? 0),
      })),
    ),
  );
}

/** In protobuf's JSON, int64 is a string and 0 is omitted. */
interface RpcResult {
  readonly model: string;
  readonly requests?: string;
  readonly promptTokens?: string;
  readonly completionTokens?: string;
}

/** Usage of each admitted request according to the logs. */
export function usageInLogs(services: readonly ServiceProcess[]): readonly (UsageSum & LoggedRequest)[] {
  return services.flatMap((service) =>
    service.logs().flatMap((line) => {
      if (line["msg"] !== "request" || typeof line["completion_tokens"] !== "number") return [];
      return {
        requestId: String(line["request_id"]),
        model: String(line["model"]),
        requests: 1,
        promptTokens: Number(line["prompt_tokens"]),
        completionTokens: line["completion_tokens"],
      };
    }),
  );
}

export interface LoggedRequest {
  readonly requestId: string;
  readonly model: string;
}

export function byModel(sums: readonly (UsageSum & { readonly model: string })[]): UsageByModel {
  const all: Record<string, UsageSum> = {};
  for (const { model, requests, promptTokens, completionTokens } of sums) {
    const before = all[model] ?? { requests: 0, promptTokens: 0, completionTokens: 0 };
    all[model] = {
      requests: before.requests + requests,
      promptTokens: before.promptTokens + promptTokens,
      completionTokens: before.completionTokens + completionTokens,
    };
  }
  return all;
}

/** The sum over all models. */
export function totalOf(usage: UsageByModel): UsageSum {
  const all = Object.values(usage).map((sum) => ({ ...sum, model: "all" }));
  return byModel(all)["all"] ?? { requests: 0, promptTokens: 0, completionTokens: 0 };
}
