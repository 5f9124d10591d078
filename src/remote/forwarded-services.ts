import type { Message } from "@bufbuild/protobuf";
import { ModelAdminService } from "../../gen/unified/admin/v1/model_admin_service_pb.js";
import { UpstreamService } from "../../gen/unified/admin/v1/upstream_service_pb.js";
import { operationRow } from "../contract/operations.js";
import type { CallContext } from "../domain/call/call-context.js";
import { ServiceError } from "../domain/call/service-error.js";
import type { RpcHandler, RpcService } from "../domain/rpc/rpc-service.js";
import { callCore, type RemoteCallDeps, streamFromCore, unchanged } from "./core-calls.js";
import { callOf } from "./remote-core.js";

/**
 * The gRPC services of a gateway. Calls about upstreams and models are forwarded to a core; all other services need only
 * the store. Models are files and processes of one machine, so a gateway shows the models of one core and changes none.
 */
export function forwardServices(services: readonly RpcService[], deps: RemoteCallDeps): readonly RpcService[] {
  return services.map((service) => {
    const isOfModels = service.desc.typeName === ModelAdminService.typeName;
    if (!isOfModels && service.desc.typeName !== UpstreamService.typeName) return service;
    return { desc: service.desc, handlers: service.handlers.map((handler) => forwarded(handler, isOfModels, deps)) };
  });
}

function forwarded(handler: RpcHandler, isOfModels: boolean, deps: RemoteCallDeps): RpcHandler {
  const check = ({ operation }: CallContext): void => {
    if (isOfModels && operationRow(operation).isReading !== true) throw modelsAreElsewhere();
  };
  if (handler.kind === "unary") {
    const { method } = handler;
    return {
      ...handler,
      async call(request, ctx) {
        check(ctx);
        return (await callCore(deps, callOf(ctx), method, request)).message;
      },
    };
  }
  const { method } = handler;
  return {
    ...handler,
    async call(request, ctx) {
      check(ctx);
      return { items: (await streamFromCore(deps, callOf(ctx), method, request, unchanged<Message>())).items };
    },
  };
}

function modelsAreElsewhere(): ServiceError {
  const sentence =
    "A gateway has no models of its own. Change them on each core, with its own address or its configuration.";
  return new ServiceError("unsupported_parameter", sentence);
}
