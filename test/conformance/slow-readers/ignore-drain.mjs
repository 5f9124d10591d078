// A fault for the canary of the slow-reader test: every response reports that its reader is not behind.
import { ServerResponse } from "node:http";

Object.defineProperty(ServerResponse.prototype, "writableNeedDrain", { get: () => false });
