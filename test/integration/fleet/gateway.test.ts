import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  CreateChatCompletionRequestSchema,
  InferenceService,
} from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { forwardedText } from "../../../src/domain/call/forwarded-call.js";
import { signText } from "../../../src/lib/crypto.js";
import { grpcDefinition } from "../../../src/lib/grpc-definition.js";
import { chatOf } from "../../conformance/rpc/chat-requests.js";
import { eventually } from "../../support/eventually.js";
import { type Link, linkTo } from "../../support/fleet/severed-link.js";
import { coreToken, type Fleet, startFleet } from "../../support/fleet/start-fleet.js";
import { GrpcClient, metadataOf } from "../../support/grpc-client.js";
import { ServiceClient } from "../../support/service-client.js";
import type { RunningService } from "../../support/start-service.js";

const models = [
  { id: "quick", engine: "scripted", slots: 200, scripted: { text: "Hello from a core." } },
  { id: "late", engine: "scripted", slots: 200, scripted: { text: "At last.", first_token_delay_ms: 300 } },
  { id: "endless", engine: "scripted", slots: 200, scripted: { tokens: 100_000, token_delay_ms: 20 } },
];

const adminToken = "token-of-the-administrator";

let fleet: Fleet;
let gateway: RunningService;
let links: Link[];
let client: ServiceClient;

beforeAll(async () => {
  links = [];
  const reach = async (address: string) => {
    const link = await linkTo(address);
    links.push(link);
    return link.address;
  };
  fleet = await startFleet({ cores: 2, reach, config: { models }, env: { UIS_ADMIN_TOKEN: adminToken } });
  gateway = fleet.gateway;
  client = new ServiceClient(gateway.http, gateway.key);
});
afterAll(async () => {
  await fleet.close();
  for (const link of links) await link.close();
});

const requestLines = (service: RunningService) => service.logs.filter(({ msg }) => msg === "request");
const ready = async () => await new ServiceClient(gateway.http, "").get("/ready");

describe("a gateway", () => {
  it("starts no engine and serves the models of its cores (REL-24)", async () => {
    const { json } = await client.get("/v1/models");
    const ids = (json["data"] as { id: string }[]).map(({ id }) => id);
    expect(ids).toEqual(["endless", "late", "quick"]);
    expect((await gateway.debugState()).models).toEqual([]);
  });

  it("distributes calls to its cores, which use the request ids that clients see (REL-24)", async () => {
    const answers = await Promise.all(Array.from({ length: 8 }, () => client.chat("late")));
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
    const seen = new Set(answers.map(({ headers }) => headers.get("x-request-id")));
    for (const core of fleet.cores) {
      await eventually(() => requestLines(core).filter(({ request_id: id }) => seen.has(String(id))).length === 4);
    }
    const line = fleet.cores.flatMap(requestLines).find(({ request_id: id }) => seen.has(String(id)));
    expect(line).toMatchObject({ transport: "openai", address: "127.0.0.1", account: "default", outcome: "completed" });
    expect(answers[0]?.headers.get("x-uis-deployment")).toBe("embedded/late");
  });

  it("repeats a unary call on another core if its core becomes unreachable before the answer (REL-25)", async () => {
    const asked = Array.from({ length: 20 }, () => client.chat("late"));
    await eventually(async () => {
      const states = await Promise.all(fleet.cores.map((core) => core.debugState()));
      return states.every(({ requests }) => requests.running >= 10);
    });
    await links[0]?.sever();
    const statuses = (await Promise.all(asked)).map(({ status }) => status);
    expect(statuses).toEqual(Array(20).fill(200));
    expect((await ready()).status).toBe(200);
    await links[0]?.restore();
  });

  it("ends and settles a stream with an error if its core becomes unreachable after the first content (REL-25)", async () => {
    const readers = await Promise.all(Array.from({ length: 4 }, () => client.stream("endless")));
    for (const reader of readers) await reader.read();
    for (const link of links) await link.sever();
    const texts = await Promise.all(readers.map(restOf));
    for (const text of texts) {
      expect(text).toContain('"code":"upstream_error"');
      expect(text).toContain("The core that ran the request was lost");
      expect(text).not.toContain("[DONE]");
    }
    await eventually(async () => {
      const states = await Promise.all(fleet.cores.map((core) => core.debugState()));
      return states.every(({ requests, live_leases: leases }) => requests.running === 0 && leases === 0);
    }, "all streams settled");
  });

  it("is not ready, and answers 503, while it reaches no core (REL-11)", async () => {
    await eventually(async () => (await ready()).status === 503);
    expect((await ready()).json).toEqual({ status: "not_ready", reason: "no_core_reachable" });
    expect(await client.chat("quick")).toMatchObject({ status: 503, code: "server_is_overloaded" });
    for (const link of links) await link.restore();
    await eventually(async () => (await ready()).status === 200);
    expect(await client.chat("quick")).toMatchObject({ status: 200 });
  });

  it("forwards errors of a core with their details, and rejects invalid keys without a core (REL-24)", async () => {
    expect(await client.chat("none")).toMatchObject({ status: 404, code: "model_not_found" });
    const bad = await client.chat("quick", { temperature: 3 });
    expect(bad).toMatchObject({ status: 400, code: "decimal_above_max_value" });
    expect(bad.json["error"]).toMatchObject({ param: "temperature" });
    expect(await new ServiceClient(gateway.http, "no-key").chat("quick")).toMatchObject({ status: 401 });
  });

  it("shows the models of a core to administrators, and refuses to change them (REL-24)", async () => {
    const administrator = new ServiceClient(gateway.http, adminToken);
    const listed = await administrator.rpc("unified.admin.v1.ModelAdminService/ListStoredModels");
    expect(listed).toMatchObject({ status: 200 });
    const unloaded = await administrator.rpc("unified.admin.v1.ModelAdminService/UnloadModel", { id: "quick" });
    expect(unloaded.json["message"]).toContain("A gateway has no models of its own");
  });
});

describe("a core", () => {
  const forged = "req_00000000000000000000000000000001";
  const forward = (token: string | null, authorization: string) => {
    const call = {
      requestId: forged,
      operation: "create_chat_completion",
      transport: "openai",
      address: "9.9.9.9",
    } as const;
    const path = "/unified.inference.v1.InferenceService/CreateChatCompletion";
    return signText(token, forwardedText({ ...call, sessionToken: null }, Date.now()), `${path}\n${authorization}`);
  };
  const idFor = async (forwarded: string): Promise<unknown> => {
    const [core] = fleet.cores as [RunningService];
    const direct = new GrpcClient(grpcDefinition(InferenceService), core.grpc);
    const metadata = metadataOf({ authorization: `Bearer ${gateway.key}`, "x-uis-forwarded": forwarded });
    const request = create(CreateChatCompletionRequestSchema, chatOf("quick"));
    const { headers } = await direct.unary("createChatCompletion", request, metadata);
    direct.close();
    return headers?.get("x-request-id")[0];
  };

  it("accepts a dashboard session that a gateway forwards, and rejects it without a signature (SEC-37)", async () => {
    const [core] = fleet.cores as [RunningService];
    const { administrator } = gateway.service.parts;
    await administrator.setPassword("a password of the test");
    const http = gateway.http;
    const signedIn = await fetch(`${http}/unified.admin.v1.SessionService/SignIn`, {
      method: "POST",
      headers: { "content-type": "application/json", origin: http },
      body: JSON.stringify({ user: "admin", password: "a password of the test" }),
    });
    const cookie = signedIn.headers
      .getSetCookie()
      .map((each) => each.split(";")[0])
      .join("; ");
    const body = JSON.stringify({
      params: { model: "quick", messages: [{ role: "ROLE_USER", content: [{ text: "Hi" }] }] },
    });
    const headers = { "content-type": "application/json", origin: http, cookie };
    const path = "unified.inference.v1.InferenceService/CreateChatCompletion";
    expect((await fetch(`${http}/${path}`, { method: "POST", headers, body })).status).toBe(200);
    const [name, token = ""] = cookie.split("; ")[0]?.split("=") ?? [];
    expect(name).toContain("uis_session");
    const direct = new GrpcClient(grpcDefinition(InferenceService), core.grpc);
    const call = { requestId: forged, operation: "create_chat_completion", transport: "connect", address: "" } as const;
    const text = forwardedText({ ...call, sessionToken: token }, Date.now());
    const request = create(CreateChatCompletionRequestSchema, chatOf("quick"));
    const unsigned = metadataOf({ "x-uis-forwarded": signText(null, text, `/${path}\n`) });
    expect((await direct.unary("createChatCompletion", request, unsigned)).status.code).toBe(16);
    direct.close();
  });

  it("ignores forwarded fields without the signature of its token (SEC-37)", async () => {
    const authorization = `Bearer ${gateway.key}`;
    expect(await idFor(forward(coreToken, authorization))).toBe(forged);
    for (const spoofed of [
      forward(null, authorization),
      forward("another-token-of-some-length", authorization),
      forward(coreToken, "Bearer of-another-caller"),
    ]) {
      expect(await idFor(spoofed)).not.toBe(forged);
    }
  });

  it("finishes its calls when it stops, and no call of the gateway fails during that time (REL-10, REL-25)", async () => {
    const [first] = fleet.cores as [RunningService];
    const { core, grpc } = first.service.parts;
    const statuses: number[] = [];
    let isOver = false;
    const callers = Array.from({ length: 10 }, async () => {
      while (!isOver) statuses.push((await client.chat("quick")).status);
    });
    const late = Array.from({ length: 10 }, () => client.chat("late"));
    await eventually(async () => (await first.debugState()).requests.running > 0 && statuses.length > 20);
    grpc.setServing(false);
    core.refuseNewCalls();
    await grpc.drain(5_000);
    const sinceDrain = statuses.length;
    await eventually(() => statuses.length > sinceDrain + 50);
    isOver = true;
    await Promise.all(callers);
    expect((await Promise.all(late)).map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
    expect((await ready()).status).toBe(200);
  });
});

async function restOf(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return text;
    text += decoder.decode(value, { stream: true });
  }
}
