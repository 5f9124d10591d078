import type { IncomingMessage, ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import type { IdSource } from "../domain/call/ports.js";
import { createStaticDoor, type StaticDoor } from "../transports/dashboard/static-door.js";
import { readWebFile, readWebFolder } from "../transports/dashboard/web-folder.js";

/** The package's own folder, from the sources and from the build alike. */
const at = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/** The door of what browsers get, with the files of this package. `fallback` serves all other paths. */
export async function composeStaticDoor(
  ids: IdSource,
  fallback: (req: IncomingMessage, res: ServerResponse) => void,
): Promise<StaticDoor> {
  const [dashboard, documents, openApi] = await Promise.all([
    readWebFolder(at("dist/dashboard")),
    readWebFolder(at("dist/docs")),
    readWebFile(at("docs/openapi.json")),
  ]);
  return createStaticDoor({ files: { dashboard, documents, openApi }, ids, fallback });
}
