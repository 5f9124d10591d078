import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterEach, describe, expect, it } from "vitest";
import {
  createStaticRoutes,
  folderLimits,
  readWebFile,
  readWebFolder,
  type StaticFiles,
} from "../../../../src/transports/dashboard/static-files.js";
import { RouteTable } from "../../../../src/transports/http/routes.js";
import { request } from "../../../support/connect-http.js";

const page = "<!doctype html><title>page</title>";
const script = "export const a = 1;\n";
const hashed = "assets/index-AbC_12-x.js";
const built = {
  "index.html": page,
  [hashed]: script,
  [`${hashed}.gz`]: gzipSync(script),
  [`${hashed}.br`]: "as brotli",
  "icon.svg": "<svg/>",
};

const open: Server[] = [];
const folders: string[] = [];
afterEach(async () => {
  for (const server of open.splice(0)) server.close();
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

async function planted(files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "static-"));
  folders.push(folder);
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  return folder;
}

/** Serves these files. A path without a route is answered with 418. */
async function serverOf(files: Partial<StaticFiles> = {}) {
  const dashboard = await readWebFolder(await planted(built));
  const routes = createStaticRoutes(
    { dashboard, documents: null, openApi: null, ...files },
    { requestId: () => "req_1" },
    (_req, res) => res.writeHead(404, { "x-request-id": "req_1" }).end(),
  );
  const table = new RouteTable(routes, (_req, res) => res.writeHead(418).end());
  const server = createServer(table.serve);
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    table,
    get: (path: string, headers: Record<string, string> = {}, method = "GET") =>
      request(`http://127.0.0.1:${port}${path}`, headers, "", method),
  };
}

describe("static files", () => {
  it("have a content security policy that allows only this origin (SEC-21)", async () => {
    const { get } = await serverOf({ documents: await readWebFolder(await planted({ "index.html": page })) });
    const policy =
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
    const trusted = "; require-trusted-types-for 'script'; trusted-types 'none'";
    for (const path of ["/dashboard", "/dashboard/", "/dashboard/keys", `/dashboard/${hashed}`, "/dashboard/none.js"]) {
      const { headers } = await get(path);
      expect(headers, path).toMatchObject({
        "content-security-policy": policy + trusted,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-request-id": "req_1",
      });
    }
    expect((await get("/docs/")).headers["content-security-policy"]).toBe(policy);
  });

  it("are cached for a year if their name has a digest; all others are revalidated and answered with 304", async () => {
    const { get } = await serverOf();
    const asset = await get(`/dashboard/${hashed}`);
    expect(asset.headers["cache-control"]).toBe("public, max-age=31536000, immutable");
    expect(asset.headers["content-type"]).toBe("text/javascript; charset=utf-8");
    for (const path of ["/dashboard/", "/dashboard/icon.svg"]) {
      const first = await get(path);
      expect(first.headers["cache-control"], path).toBe("no-cache");
      const again = await get(path, { "if-none-match": `"other", W/${first.headers.etag}` });
      expect([again.status, again.body.length], path).toEqual([304, 0]);
      expect((await get(path, { "if-none-match": '"other"' })).status).toBe(200);
    }
  });

  it("include one index for pages of the dashboard and one for pages below settings/", async () => {
    const settings = "<!doctype html><title>settings</title>";
    const { get } = await serverOf({
      dashboard: await readWebFolder(await planted({ ...built, "settings/index.html": settings })),
    });
    for (const path of ["", "keys", "settings"]) expect((await get(`/dashboard/${path}`)).body.toString()).toBe(page);
    for (const path of ["settings/keys", "settings/webhooks"]) {
      const { status, headers, body } = await get(`/dashboard/${path}`);
      expect([status, headers["content-type"], body.toString()]).toEqual([200, "text/html; charset=utf-8", settings]);
    }
    for (const path of ["other/keys", "settings/keys/more", "settings/x.js"]) {
      expect([path, (await get(`/dashboard/${path}`)).status]).toEqual([path, 404]);
    }
  });

  it("are sent in the best encoding that the client accepts, with Vary for caches", async () => {
    const { get } = await serverOf();
    const ask = (accepted: string) => get(`/dashboard/${hashed}`, { "accept-encoding": accepted });
    const gzip = await ask("deflate, gzip;q=0.5");
    expect(gunzipSync(gzip.body).toString()).toBe(script);
    expect(gzip.headers).toMatchObject({ "content-encoding": "gzip", vary: "Accept-Encoding" });
    const brotli = await ask("gzip, BR");
    expect([brotli.body.toString(), brotli.headers["content-encoding"]]).toEqual(["as brotli", "br"]);
    for (const accepted of ["", "br;q=0, gzip;q=0.0", "identity"]) {
      const plain = await ask(accepted);
      expect([plain.body.toString(), plain.headers["content-encoding"]], accepted).toEqual([script, undefined]);
    }
    expect(gzip.headers.etag).not.toBe(brotli.headers.etag);
    expect((await get(`/dashboard/${hashed}.gz`)).status).toBe(404);
  });

  it("redirect a folder's path without a slash by a page with a relative address, not by HTTP (CONN-7)", async () => {
    const { get } = await serverOf();
    const { status, headers, body } = await get("/dashboard?page=keys");
    expect([status, headers.location, headers["content-type"]]).toEqual([200, undefined, "text/html; charset=utf-8"]);
    expect(body.toString()).toContain('content="0; url=dashboard/"');
    expect(new URL("dashboard/", "https://example.org/tools/uis/dashboard").pathname).toBe("/tools/uis/dashboard/");
  });

  it("include the index page for page names; other unknown names get 404", async () => {
    const { get } = await serverOf();
    for (const name of ["", "keys", "sign-in", "keys?created=1"]) {
      expect((await get(`/dashboard/${name}`)).body.toString(), name).toBe(page);
    }
    const none = ["keys/", "a/b", "none.js", "assets/", "assets/none.js", "Keys"];
    for (const name of none) expect((await get(`/dashboard/${name}`)).status, name).toBe(404);
  });

  it("are served for GET and HEAD only, for HEAD without the body", async () => {
    const { get } = await serverOf();
    const head = await get("/dashboard/", {}, "HEAD");
    expect([head.status, head.headers["content-length"], head.body.length]).toEqual([200, `${page.length}`, 0]);
    for (const method of ["POST", "DELETE", "OPTIONS"]) {
      const { status, headers } = await get("/dashboard/", {}, method);
      expect([status, headers.allow], method).toEqual([405, "GET, HEAD"]);
    }
  });

  it("get 404 with the build command if their folder was not built; other paths have no route", async () => {
    const { table, get } = await serverOf({ dashboard: null });
    for (const path of ["/dashboard", "/dashboard/keys", "/docs/"]) {
      const { status, body } = await get(path);
      expect([status, body.toString()], path).toEqual([404, expect.stringContaining("npm run build")]);
    }
    for (const path of ["/", "/dashboards", "/documents", "/v1/models", "/openapi.json"]) {
      expect([(await get(path)).status, table.has(path)], path).toEqual([418, false]);
    }
  });

  it("include the unchanged API description of the package", async () => {
    const folder = await planted({ "openapi.json": '{"openapi":"3.1.0"}' });
    const { get } = await serverOf({ openApi: await readWebFile(join(folder, "openapi.json")) });
    const { headers, body } = await get("/openapi.json");
    expect([headers["content-type"], body.toString()]).toEqual(["application/json", '{"openapi":"3.1.0"}']);
    expect(await readWebFile(join(folder, "none.json"))).toBeNull();
  });

  it("are null if their folder is missing; a folder that is too large is refused", async () => {
    expect(await readWebFolder("/nowhere/at/all")).toBeNull();
    expect(await readWebFolder(await planted({ "other.html": page }))).toBeNull();
    const many = Object.fromEntries(Array.from({ length: folderLimits.files + 1 }, (_, i) => [`${i}.txt`, ""]));
    await expect(readWebFolder(await planted(many))).rejects.toThrow("contains more than 1000 files");
  });
});
