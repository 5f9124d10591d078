import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { uis } from "../../support/cli-run.js";
import { request } from "../../support/connect-http.js";
import { type RunningService, startService } from "../../support/start-service.js";

let service: RunningService;
let env: Record<string, string>;

beforeAll(async () => {
  service = await startService();
  env = { UIS_URL: service.http, UIS_DATA_DIR: service.dataDir };
});
afterAll(() => service.close());

const completeSetup = (token: string) =>
  request(
    `${service.http}/unified.admin.v1.SessionService/CompleteSetup`,
    { "content-type": "application/json" },
    JSON.stringify({ token, password: "correct horse battery" }),
  );

describe("uis admin link", () => {
  it("prints a link whose token sets the password once, and revokes the previous link (KEY-20)", async () => {
    const links: URL[] = [];
    for (let turn = 0; turn < 2; turn++) {
      const { code, stdout, stderr } = await uis(["admin", "link", "--json"], { env });
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      expect(Object.keys(JSON.parse(stdout) as object)).toEqual(["url"]);
      links.push(new URL((JSON.parse(stdout) as { url: string }).url));
    }
    const tokens = links.map(({ hash }) => hash.replace("#token=", ""));
    for (const { origin, pathname, search } of links) {
      expect({ origin, pathname, search }).toEqual({ origin: service.http, pathname: "/dashboard/setup", search: "" });
    }
    expect((await completeSetup(tokens[0] ?? "")).status).toBe(401);
    expect((await completeSetup(tokens[1] ?? "")).status).toBe(200);
    expect((await completeSetup(tokens[1] ?? "")).status).toBe(401);
  });

  it("prints the link as text, and needs the administrator's token", async () => {
    const { stdout } = await uis(["admin", "link"], { env });
    expect(stdout).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/dashboard\/setup#token=[0-9A-Za-z]{43}\n/);
    const refused = await uis(["admin", "link"], { env: { ...env, UIS_ADMIN_TOKEN: "not-the-token-of-this-one" } });
    expect(refused).toMatchObject({ code: 1, stdout: "" });
  });
});
