// A fault for the canary of the slow-reader test: every response claims that its reader keeps up.
import { ServerResponse } from "node:http";

Object.defineProperty(ServerResponse.prototype, "writableNeedDrain", { get: () => false });
