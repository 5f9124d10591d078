import { describe, expect, it } from "vitest";
import type { CallContext } from "../../../../src/domain/call/call-context.js";
import { tokenAdministrator } from "../../../../src/domain/call/principal.js";
import type { ModelAdmin } from "../../../../src/domain/catalog/model-admin.js";
import { createModelAdminService } from "../../../../src/domain/rpc/model-admin-service.js";
import type { RpcService } from "../../../../src/domain/rpc/rpc-service.js";
import { createSystemService, type SystemServiceDeps } from "../../../../src/domain/rpc/system-service.js";

const session = { ...tokenAdministrator, sessionId: "ses_1" };
const noAudit = { record: async () => {} };

/** Calls a method as the administrator with the token, or as a dashboard session. */
async function call({ handlers }: RpcService, name: string, request: object, isSession: boolean): Promise<unknown> {
  const handler = handlers.find(({ method }) => method.localName === name);
  const principal = isSession ? session : tokenAdministrator;
  const ctx = { principal, address: "", signal: new AbortController().signal } as unknown as CallContext;
  return handler?.call(request as never, ctx, () => {});
}

describe("access of a dashboard session to files and networks of the machine (SEC-36)", () => {
  it("a session can pull and import only from the operator's lists, the administrator's token from anywhere (SEC-36, E-16)", async () => {
    const seen: (boolean | undefined)[] = [];
    const stop = (request: { readonly isGuarded?: boolean }): never => {
      seen.push(request.isGuarded);
      throw new Error("seen");
    };
    const admin = { pull: stop, import: (_path: string, request: object) => stop(request) } as unknown as ModelAdmin;
    const service = createModelAdminService(admin, noAudit);
    for (const isSession of [true, false]) {
      const pulled = call(service, "pullModel", { source: "https://h.example/m", id: "", sha256: "" }, isSession);
      await expect(pulled).rejects.toThrow("seen");
      await expect(call(service, "importModel", { path: "/m", id: "" }, isSession)).rejects.toThrow("seen");
    }
    expect(seen).toEqual([true, true, false, false]);
  });

  it("a session can back up only into one folder, the administrator's token into any (SEC-36, E-16)", async () => {
    const written: string[] = [];
    const backup = async (file: string): Promise<void> => void written.push(file);
    const deps = { audit: noAudit, backup, backupFolder: "/data/backups" } as unknown as SystemServiceDeps;
    const service = createSystemService(deps);
    const backUp = (path: string, isSession: boolean) => call(service, "createBackup", { path }, isSession);
    for (const path of [
      "/etc/cron.d/x",
      "/data/backups",
      "/data/backups/../x",
      "/data/backups/a/b",
      "/data/backupsx",
    ]) {
      await expect(backUp(path, true), path).rejects.toMatchObject({ code: "invalid_value", param: "path" });
    }
    await backUp("/data/backups/monday.db", true);
    await backUp("/mnt/x.db", false);
    expect(written).toEqual(["/data/backups/monday.db", "/mnt/x.db"]);
  });
});
