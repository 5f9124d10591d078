import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Scope } from "../../../gen/unified/admin/v1/api_key_pb.js";
import { ApiKeyService } from "../../../gen/unified/admin/v1/api_key_service_pb.js";
import { AuditActorKind, type AuditRecord } from "../../../gen/unified/admin/v1/audit_pb.js";
import { SystemService } from "../../../gen/unified/admin/v1/system_service_pb.js";
import { seededPick } from "../../support/random-numbers.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { rounds } from "../../support/tier.js";

describe.each(["none", "every-write"] as const)("audit records with durability %s", (durability) => {
  let service: RunningService;
  beforeAll(async () => {
    service = await startService({ config: { state: { durability } } });
  });
  afterAll(() => service.close());

  function clients() {
    const headers = { authorization: `Bearer ${service.adminToken}` };
    const transport = createConnectTransport({
      baseUrl: service.http,
      httpVersion: "1.1",
      interceptors: [
        (next) => (request) => {
          for (const [name, value] of Object.entries(headers)) request.header.set(name, value);
          return next(request);
        },
      ],
    });
    return { keys: createClient(ApiKeyService, transport), system: createClient(SystemService, transport) };
  }

  async function allRecords(): Promise<AuditRecord[]> {
    const records: AuditRecord[] = [];
    let pageToken = "";
    do {
      const page = await clients().system.listAuditRecords({ pageSize: 7, pageToken });
      records.push(...page.records);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    return records;
  }

  it("contain exactly one record without secrets for each of many random operations, in their order (SEC-30, KEY-23)", async () => {
    const { keys } = clients();
    const pick = seededPick(30);
    const ids: string[] = [];
    const secrets: string[] = [];
    const done: string[] = [];
    const before = (await allRecords()).length;
    for (let round = 0; round < rounds(1_000); round++) {
      const id = ids[pick(Math.max(1, ids.length))];
      const choice = id === undefined ? 0 : pick(4);
      if (id === undefined || choice === 0) {
        const { apiKey, secret } = await keys.createApiKey({ name: `key ${round}`, scope: Scope.READ });
        ids.push(apiKey?.id ?? "");
        secrets.push(secret);
        done.push(`api_key.create ${apiKey?.id}`);
      } else if (choice === 1) {
        await keys.updateApiKey({ id, name: `renamed ${round}` });
        done.push(`api_key.update ${id}`);
      } else if (choice === 2) {
        secrets.push((await keys.rotateApiKey({ id })).secret);
        done.push(`api_key.rotate ${id}`);
      } else {
        ids.splice(ids.indexOf(id), 1);
        await keys.revokeApiKey({ id });
        done.push(`api_key.revoke ${id}`);
      }
    }
    const records = (await allRecords()).slice(0, done.length).toReversed();
    expect((await allRecords()).length - before).toBe(done.length);
    expect(records.map(({ action, target }) => `${action} ${target}`).toSorted()).toEqual(done.toSorted());
    const times = records.map(({ at }) => Number(at?.seconds) * 1_000 + Math.floor((at?.nanos ?? 0) / 1e6));
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    const text = JSON.stringify(records, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value));
    for (const secret of [...secrets, service.adminToken]) expect(text).not.toContain(secret.slice(10, 30));
    expect(records.every(({ actorKind }) => actorKind === AuditActorKind.ADMIN_TOKEN)).toBe(true);
    expect(records.every(({ address }) => address.endsWith("127.0.0.1"))).toBe(true);
  });

  it("contain no record of reads, and are not listed with an invalid page token (KEY-23)", async () => {
    const { keys, system } = clients();
    const before = (await allRecords()).length;
    await keys.listApiKeys({});
    await expect(system.listAuditRecords({ pageToken: "made-up" })).rejects.toThrow("page_token");
    await expect(keys.revokeApiKey({ id: "key_nobody" })).rejects.toThrow();
    expect(await allRecords()).toHaveLength(before);
  });
});
