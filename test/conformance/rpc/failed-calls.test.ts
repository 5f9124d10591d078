import type { DescMethod, MessageInitShape } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiKeyService } from "../../../gen/unified/admin/v1/api_key_service_pb.js";
import { ModelAdminService } from "../../../gen/unified/admin/v1/model_admin_service_pb.js";
import { SystemService } from "../../../gen/unified/admin/v1/system_service_pb.js";
import { DeliveryService } from "../../../gen/unified/webhook/v1/delivery_service_pb.js";
import { eventually } from "../../support/eventually.js";
import { metricLines } from "../../support/metrics-text.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type CallSettings, openWay, type RpcWay, wayNames } from "./ways.js";

let service: RunningService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.close());

const administrator = (): CallSettings => ({ authorization: `Bearer ${service.adminToken}` });

/** The request line of one call. Fails unless there is exactly one. */
async function logOf(requestId: string | null) {
  const lines = () => service.logs.filter((line) => line["request_id"] === requestId && line["msg"] === "request");
  await eventually(() => lines().length > 0, "the call is in the log");
  return lines();
}

/** Number of ended calls of one operation, by code. */
async function countsOf(route: string): Promise<Record<string, number>> {
  const page = await (await fetch(`${service.ops}/metrics`)).text();
  const counts = Object.entries(metricLines(page, "uis_requests_total")).flatMap(([labels, count]) => {
    const [, of, code] = /^\{route="(\w+)",.*code="(\w+)"\}$/.exec(labels) ?? [];
    return of === route && code !== undefined ? [[code, count] as const] : [];
  });
  return Object.fromEntries(counts);
}

const refusals: readonly {
  readonly title: string;
  readonly method: DescMethod;
  readonly request: MessageInitShape<DescMethod["input"]>;
  readonly route: string;
  readonly code: string;
}[] = [
  {
    title: "a refused CreateApiKey",
    method: ApiKeyService.method.createApiKey,
    request: { name: "" },
    route: "create_api_key",
    code: "missing_required_parameter",
  },
  {
    title: "a retry of a delivery that does not exist",
    method: DeliveryService.method.retryDelivery,
    request: { id: "dlv_none" },
    route: "retry_delivery",
    code: "not_found",
  },
  {
    title: "a refused stream",
    method: ModelAdminService.method.pullModel,
    request: { source: "nowhere" },
    route: "pull_model",
    code: "invalid_value",
  },
];

describe.each(wayNames)("calls that fail over %s", (name) => {
  let way: RpcWay;
  beforeAll(() => {
    way = openWay(name, service);
  });
  afterAll(() => way.close());

  it.each(refusals)("are logged and counted with their outcome: $title", async (refusal) => {
    const { method, request, route, code } = refusal;
    const before = await countsOf(route);
    const { failure, requestId } = await way.call(method, request, administrator());
    expect(failure?.reason).toBe(code.toUpperCase());
    expect(await logOf(requestId)).toMatchObject([{ operation: route, outcome: "failed", error: code }]);
    expect(await countsOf(route)).toEqual({ ...before, [code]: (before[code] ?? 0) + 1 });
  });

  it("do not affect the log of a successful call", async () => {
    const { failure, requestId } = await way.call(SystemService.method.getSystem, {}, administrator());
    expect(failure).toBeNull();
    expect(await logOf(requestId)).toMatchObject([{ outcome: "completed", error: null }]);
  });

  it("do not include a cancelled stream, which is logged as cancelled", async () => {
    const { requestId } = await way.call(SystemService.method.watchOverview, {}, { ...administrator(), stopAfter: 1 });
    expect(await logOf(requestId)).toMatchObject([
      { operation: "watch_overview", outcome: "client_left", error: null },
    ]);
  });
});

it("a rejected REST call is logged with its outcome", async () => {
  const headers = { authorization: `Bearer ${service.key}`, "content-type": "application/json" };
  const response = await fetch(`${service.api}/webhooks`, { method: "POST", headers, body: '{"url":"no address"}' });
  const { error } = (await response.json()) as { error: { code: string } };
  expect(response.status).toBe(400);
  expect(await logOf(response.headers.get("x-request-id"))).toMatchObject([{ outcome: "failed", error: error.code }]);
});
