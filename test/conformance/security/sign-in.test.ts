import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SessionService } from "../../../gen/unified/admin/v1/session_service_pb.js";
import { connectErrorOf, request } from "../../support/connect-http.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { openWay } from "../rpc/ways.js";
import { DashboardClient, jsonOf } from "./dashboard-client.js";

const password = "correct horse battery";
let service: RunningService;

beforeAll(async () => {
  service = await startService({ config: { state: { durability: "every-write" } } });
});
afterAll(() => service.close());

const codeOf = (answer: Parameters<typeof connectErrorOf>[0]) => connectErrorOf(answer).code;
const newToken = async () => (await service.service.parts.administrator.createSetupLink()).token;

async function signedIn(): Promise<DashboardClient> {
  const client = new DashboardClient(service);
  const done = await client.call("SessionService/CompleteSetup", { token: await newToken(), password });
  expect(done.status).toBe(200);
  return client;
}

/** Hashing a password takes some tenths of a second of a free core. */
describe("signing in to the dashboard", { timeout: 60_000 }, () => {
  it("begins with a setup link that sets the password, and a cookie that scripts and other sites cannot use (KEY-20, KEY-22)", async () => {
    const client = new DashboardClient(service);
    const token = await newToken();
    const done = await client.call("SessionService/CompleteSetup", { token, password });
    expect(done.headers["set-cookie"]).toEqual([
      expect.stringMatching(/^uis_session=[0-9A-Za-z]{43}; Path=\/; Max-Age=604800; HttpOnly; SameSite=Strict$/),
      expect.stringMatching(/^uis_browser=[0-9A-Za-z]{43}; Path=\/; Max-Age=7776000; HttpOnly; SameSite=Strict$/),
    ]);
    expect(done.headers["cache-control"]).toBe("no-store");
    expect(jsonOf(done)["session"]).toMatchObject({ user: "admin", role: "ROLE_ADMIN", current: true });
    expect(codeOf(await new DashboardClient(service).call("SessionService/CompleteSetup", { token, password }))).toBe(
      status.UNAUTHENTICATED,
    );
    expect((await client.call("ApiKeyService/ListApiKeys")).status).toBe(200);
  });

  it("works with the password until signing out, which also makes a stolen cookie invalid (KEY-21, KEY-22)", async () => {
    await signedIn();
    const client = new DashboardClient(service);
    expect((await client.call("SessionService/SignIn", { user: "admin", password })).status).toBe(200);
    const stolen = client.cookie;
    expect((await client.call("SessionService/ListSessions")).status).toBe(200);
    const out = await client.call("SessionService/SignOut");
    expect(out.headers["set-cookie"]).toEqual([expect.stringContaining("uis_session=; Path=/; Max-Age=0")]);
    client.cookie = stolen;
    expect(codeOf(await client.call("SessionService/ListSessions"))).toBe(status.UNAUTHENTICATED);
  });

  it("creates sessions that are listed and can be revoked (KEY-22)", async () => {
    const first = await signedIn();
    const second = new DashboardClient(service);
    await second.call("SessionService/SignIn", { user: "admin", password }, { "user-agent": "another browser" });
    const { sessions } = jsonOf(await first.call("SessionService/ListSessions")) as {
      sessions: { id: string; userAgent?: string; current?: boolean; address: string }[];
    };
    expect(sessions).toHaveLength(2);
    expect(sessions[0]).toMatchObject({ userAgent: "another browser", address: expect.stringContaining("127.0.0.1") });
    expect(sessions.map(({ current }) => current === true)).toEqual([false, true]);
    expect((await first.call("SessionService/RevokeSession", { id: sessions[0]?.id })).status).toBe(200);
    expect(codeOf(await second.call("SessionService/ListSessions"))).toBe(status.UNAUTHENTICATED);
    expect((await first.call("SessionService/ListSessions")).status).toBe(200);
  });

  it("allows changes only from the server's own origin, and rejects other pages always (KEY-22)", async () => {
    const client = await signedIn();
    const name = "made by a session";
    const create = (origin: string | undefined) =>
      client.call("ApiKeyService/CreateApiKey", { name, scope: "SCOPE_READ" }, { origin });
    const list = (origin: string | undefined) => client.call("ApiKeyService/ListApiKeys", {}, { origin });
    const foreign = ["https://evil.example", "null", `${service.http}.evil.example`, service.http.replace(/:\d+$/, "")];
    for (const origin of foreign) {
      expect(codeOf(await create(origin)), origin).toBe(status.PERMISSION_DENIED);
      expect(codeOf(await list(origin)), origin).toBe(status.PERMISSION_DENIED);
      const signIn = await client.call("SessionService/SignIn", { user: "admin", password }, { origin });
      expect(codeOf(signIn), origin).toBe(status.PERMISSION_DENIED);
    }
    expect(codeOf(await create(undefined))).toBe(status.PERMISSION_DENIED);
    expect((await list(undefined)).status).toBe(200);
    const before = jsonOf(await list(service.http))["apiKeys"] as { name: string }[];
    expect(before.some((key) => key.name === name)).toBe(false);
    expect((await create(service.http)).status).toBe(200);
  });

  it("rejects two session cookies, since one may have been injected (KEY-22)", async () => {
    const client = await signedIn();
    const cookie = `${client.cookie}; ${client.cookie}`;
    expect(codeOf(await client.call("ApiKeyService/ListApiKeys", {}, { cookie }))).toBe(status.UNAUTHENTICATED);
    const beside = `theme=dark; ${client.cookie}; x=1`;
    expect((await client.call("ApiKeyService/ListApiKeys", {}, { cookie: beside })).status).toBe(200);
  });

  it("has no effect on /v1 and gRPC, which ignore cookies (KEY-22)", async () => {
    const client = await signedIn();
    const headers = { cookie: client.cookie ?? "", origin: service.http };
    expect((await request(`${service.api}/models`, headers, "", "GET")).status).toBe(401);
    const grpc = openWay("grpc", service);
    const settings = { authorization: null, headers };
    const listed = await grpc.call(SessionService.method.listSessions, {}, settings);
    expect(listed.failure?.code).toBe(status.UNAUTHENTICATED);
    const signIn = await grpc.call(SessionService.method.signIn, { user: "admin", password }, settings);
    expect(signIn.failure).toMatchObject({ code: status.UNIMPLEMENTED, reason: "METHOD_NOT_ALLOWED" });
    grpc.close();
  });

  it("with a new password ends all other sessions (KEY-21)", async () => {
    const first = await signedIn();
    const second = new DashboardClient(service);
    await second.call("SessionService/SignIn", { user: "admin", password });
    const change = { currentPassword: password, newPassword: "another long password" };
    expect((await first.call("SessionService/ChangePassword", change)).status).toBe(200);
    expect((await first.call("SessionService/ListSessions")).status).toBe(200);
    expect(codeOf(await second.call("SessionService/ListSessions"))).toBe(status.UNAUTHENTICATED);
  });

  it("leaves audit records of sign-ins, failures and sign-outs with the address and without the password (KEY-23)", async () => {
    const client = await signedIn();
    const wrong = "not the password at all";
    await client.call("SessionService/SignIn", { user: "admin", password: wrong });
    await client.call("SessionService/SignIn", { user: "typed-into-the-wrong-field", password: wrong });
    await client.call("SessionService/SignOut");
    const { body } = await client.call(
      "SystemService/ListAuditRecords",
      { pageSize: 4 },
      { authorization: `Bearer ${service.adminToken}` },
    );
    const { records } = JSON.parse(body.toString()) as { records: Record<string, unknown>[] };
    expect(
      records.map(({ action, actorKind, result, details }) => ({ action, actorKind, result, details })),
    ).toMatchObject([
      { action: "session.sign_out", actorKind: "AUDIT_ACTOR_KIND_SESSION", result: "ok" },
      { action: "session.sign_in", result: "invalid_api_key", details: { user: "unknown" } },
      {
        action: "session.sign_in",
        actorKind: "AUDIT_ACTOR_KIND_NOBODY",
        result: "invalid_api_key",
        details: { user: "admin" },
      },
      { action: "administrator.set_up", result: "ok" },
    ]);
    expect(records.every(({ address }) => String(address).endsWith("127.0.0.1"))).toBe(true);
    for (const secret of [password, wrong, "typed-into-the-wrong-field"]) expect(body.includes(secret)).toBe(false);
  });
});

describe("sign-in limits", { timeout: 60_000 }, () => {
  it("reject the 6th wrong attempt of an address within a minute with 429; there is no default password (KEY-21, E-13)", async () => {
    const other = await startService();
    const client = new DashboardClient(other);
    const signIn = (caller: DashboardClient, user: string, text: string) =>
      caller.call("SessionService/SignIn", { user, password: text });
    const guesses = [
      ["admin", "password", "admin123", "changeme"].map((guess) => ["admin", guess] as const),
      [["uis", "uis"]] as const,
    ].flat();
    for (const [user, guess] of guesses) {
      expect(codeOf(await signIn(client, user, guess))).toBe(status.UNAUTHENTICATED);
    }
    const answer = await signIn(client, "admin", password);
    expect(connectErrorOf(answer)).toMatchObject({ code: status.RESOURCE_EXHAUSTED, reason: "RATE_LIMIT_EXCEEDED" });
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);

    await other.service.parts.administrator.setPassword(password);
    const elsewhere = new DashboardClient(other, "127.0.0.2");
    expect((await signIn(elsewhere, "admin", password)).status).toBe(200);
    // A browser that has signed in before is served even from the address of the wrong attempts.
    client.browserCookie = elsewhere.browserCookie;
    expect((await signIn(client, "admin", password)).status).toBe(200);
    await other.close();
  });

  it("allow UIS_ADMIN_PASSWORD as the password from the first start (KEY-20)", async () => {
    const other = await startService({ env: { UIS_ADMIN_PASSWORD: password } });
    const client = new DashboardClient(other);
    expect((await client.call("SessionService/SignIn", { user: "admin", password })).status).toBe(200);
    await other.close();
  });
});
