import { quote } from "../call/field-checks.js";
import { ServiceError } from "../call/service-error.js";

/** How the path of every RPC of this service begins: all its packages are `unified.*`. */
const pathPrefix = "/unified.";

/** Whether a path can only be meant as an RPC of this service. */
export function isRpcPath(path: string): boolean {
  return path.startsWith(pathPrefix);
}

/** For a path that looks like an RPC of this service and is none. */
export function unknownRpc(path: string): ServiceError {
  return new ServiceError("unknown_url", `This service has no RPC ${quote(path)}.`);
}
