import { fileURLToPath } from "node:url";
import type { StaticFiles } from "../transports/dashboard/static-door.js";
import { readWebFile, readWebFolder } from "../transports/dashboard/web-files.js";

/** The root folder of the package, from the sources and from the build alike. */
const at = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/** Reads the dashboard and the pages about the API from this package. */
export async function readStaticFiles(): Promise<StaticFiles> {
  const [dashboard, documents, openApi] = await Promise.all([
    readWebFolder(at("dist/dashboard")),
    readWebFolder(at("dist/docs")),
    readWebFile(at("docs/openapi.json")),
  ]);
  return { dashboard, documents, openApi };
}
