import { lookup } from "node:dns/promises";
import type { RejectionCache } from "../../domain/metering/limit-response.js";
import type { RpcService } from "../../domain/rpc/rpc-service.js";
import type { ServiceCore } from "../../domain/service/service-core.js";
import { Cores } from "../../remote/cores.js";
import { forwardServices } from "../../remote/forwarded-services.js";
import { RemoteCore } from "../../remote/remote-core.js";
import type { Context } from "./context.js";
import { readCoreTls } from "./core-trust.js";

/** Creates the parts of a gateway that send calls to its cores, and those for RPCs that only a core can answer. */
export async function composeGateway(
  { config, limits, backgroundClock, log, lifecycle }: Context,
  local: ServiceCore,
  rejections: RejectionCache,
) {
  const { addresses, token, tls } = config.core;
  const cores = new Cores({
    addresses,
    tls: await readCoreTls(tls),
    lookup: (host) => lookup(host, { all: true }),
    clock: backgroundClock,
    log,
  });
  lifecycle.onClose("connections to cores", () => cores.close());
  await cores.start();
  const deps = { cores, token, limits, rejections };
  return {
    cores,
    core: new RemoteCore({ ...deps, local }),
    forward: (services: readonly RpcService[]) => forwardServices(services, deps),
  };
}
