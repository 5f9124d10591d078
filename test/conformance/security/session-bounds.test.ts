import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ModelAdminService } from "../../../gen/unified/admin/v1/model_admin_service_pb.js";
import { SystemService } from "../../../gen/unified/admin/v1/system_service_pb.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { type CallSettings, openWay, type RpcWay } from "../rpc/ways.js";

describe("a dashboard session with the default settings", () => {
  let folder: string;
  let service: RunningService;
  let way: RpcWay;
  let local: Server;
  const received: (string | undefined)[] = [];
  let session: CallSettings;
  let token: CallSettings;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "uis-session-"));
    local = createServer((request, response) => {
      received.push(request.url);
      response.writeHead(404).end();
    }).listen(0, "127.0.0.1");
    await once(local, "listening");
    service = await startService({ config: { state: { durability: "every-write" } } });
    way = openWay("connect json", service);
    const begun = await service.service.parts.sessions.begin("admin", { address: "", userAgent: "" });
    const headers = { cookie: `uis_session=${begun.token}`, origin: service.http };
    session = { authorization: null, headers };
    token = { authorization: `Bearer ${service.adminToken}` };
  });
  afterAll(async () => {
    way?.close();
    await service?.close();
    local.close();
    await rm(folder, { recursive: true });
  });

  const { pullModel, importModel } = ModelAdminService.method;
  const { createBackup } = SystemService.method;

  it("cannot make the service connect to a private address or reveal which files exist (E-16)", async () => {
    const { port } = local.address() as AddressInfo;
    const refusedPull = async (source: string) =>
      (await way.call(pullModel, { source, id: "m" }, session)).failure?.message;
    const ofClosed = await refusedPull("http://127.0.0.1:1/model.gguf");
    const ofOpen = await refusedPull(`http://127.0.0.1:${port}/model.gguf`);
    expect(ofOpen).toContain("is not open to pulls from the dashboard");
    expect(ofOpen?.replace(`:${port}`, ":1")).toBe(ofClosed);
    expect(received).toEqual([]);

    const file = join(folder, "there.gguf");
    await writeFile(file, "no model");
    const refusalOf = async (path: string) =>
      (await way.call(importModel, { path, id: "m" }, session)).failure?.message;
    const refused = await refusalOf(file);
    expect(refused).toContain("only from the folders of model_store.import_dirs");
    for (const path of [join(folder, "missing.gguf"), folder, "/dev/zero"]) expect(await refusalOf(path)).toBe(refused);
    const ofFile = await way.call(pullModel, { source: `file:${file}`, id: "n" }, session);
    expect(ofFile.failure?.message).toBe(refused);
    expect((await way.call(importModel, { path: file, id: "m" }, token)).failure?.message).toContain("GGUF");
  });

  it("can write backups only to the folder of backups (E-16)", async () => {
    const elsewhere = join(folder, "copy.db");
    const refused = await way.call(createBackup, { path: elsewhere }, session);
    expect(refused.failure).toMatchObject({ reason: "INVALID_VALUE", param: "path" });
    expect(await readdir(folder)).not.toContain("copy.db");
    const backups = join(service.dataDir, "backups");
    expect((await way.call(createBackup, { path: join(backups, "monday.db") }, session)).failure).toBeNull();
    expect((await stat(backups)).mode & 0o777).toBe(0o700);
    expect((await stat(join(backups, "monday.db"))).mode & 0o777).toBe(0o600);
    expect((await way.call(createBackup, { path: elsewhere }, token)).failure).toBeNull();
  });

  it("an import of a named pipe by the command line is refused immediately (E-16)", async () => {
    const pipe = join(folder, "pipe.gguf");
    execFileSync("mkfifo", [pipe]);
    const { failure } = await way.call(importModel, { path: pipe, id: "pipe" }, token);
    expect(failure?.message).toContain("is not a regular file");
  });
});
