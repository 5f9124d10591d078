import { type Duration, durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { UpstreamService } from "../../../gen/unified/admin/v1/upstream_service_pb.js";
import { refuse } from "../call/service-error.js";
import type { Deployment } from "../catalog/deployment.js";
import type { ShownUpstream } from "../upstreams/shown-upstream.js";
import type { UpstreamAdmin } from "../upstreams/upstream-admin.js";
import type { CheckedUpstream, UpstreamChecks } from "../upstreams/upstream-checks.js";
import { type RpcService, rpcService, timestampOf } from "./rpc-service.js";

/** `unified.admin.v1.UpstreamService`: administration of upstreams; `Core.open` has authorized the call. */
export function createUpstreamService(
  admin: Pick<UpstreamAdmin, "list" | "create" | "update" | "remove" | "drain">,
  checks: Pick<UpstreamChecks, "check">,
): RpcService {
  return rpcService(UpstreamService, {
    async listUpstreams() {
      return { upstreams: admin.list().map(upstreamFields) };
    },
    async checkUpstream(request, ctx) {
      return checkFields(await checks.check(request, ctx));
    },
    async createUpstream({ upstream, key, headers }, ctx) {
      if (upstream === undefined) {
        return refuse("missing_required_parameter", "upstream", "'upstream' is required.");
      }
      const { name, kind, models, native, weight, priority, slots, ...given } = upstream;
      // 0 and empty texts are the defaults of absent fields.
      const input = {
        ...durationsOf(given),
        url: given.url,
        apiVersion: given.apiVersion,
        models,
        native,
        kind: kind || undefined,
        weight: weight || undefined,
        priority,
        slots: slots || undefined,
      };
      return { upstream: upstreamFields(await admin.create(name, input, { key, headers }, ctx)) };
    },
    async updateUpstream({ name, key, headers, models, native, ...given }, ctx) {
      const input = { ...given, ...durationsOf(given), models: models?.values, native: native?.values };
      return { upstream: upstreamFields(await admin.update(name, input, { key, headers: headers?.values }, ctx)) };
    },
    async deleteUpstream({ name }, ctx) {
      await admin.remove(name, ctx);
      return {};
    },
    async drainDeployment({ id, drain = true }, ctx) {
      const deployment = await admin.drain(id, drain, ctx);
      return deployment === null ? {} : { deployment: deploymentFields(deployment) };
    },
  });
}

type Durations = { readonly [Name in "discover" | "connect" | "firstByte" | "idle" | "total"]?: Duration | undefined };

function durationsOf({ discover, connect, firstByte, idle, total }: Durations) {
  const msOf = (duration: Duration | undefined) => (duration === undefined ? undefined : durationMs(duration));
  return {
    discoverMs: msOf(discover),
    connectMs: msOf(connect),
    firstByteMs: msOf(firstByte),
    idleMs: msOf(idle),
    totalMs: msOf(total),
  };
}

function upstreamFields(upstream: ShownUpstream) {
  return {
    ...upstream,
    apiVersion: upstream.apiVersion ?? "",
    models: [...upstream.models],
    native: [...(upstream.native ?? [])],
    discover: durationFromMs(upstream.discoverMs ?? 0),
    connect: durationFromMs(upstream.connectMs),
    firstByte: durationFromMs(upstream.firstByteMs),
    idle: durationFromMs(upstream.idleMs),
    total: durationFromMs(upstream.totalMs),
    headerNames: [...upstream.headerNames],
    problem: upstream.problem ?? "",
    deployments: upstream.deployments.map(deploymentFields),
    createdAt: timestampOf(upstream.createdAtMs),
    updatedAt: timestampOf(upstream.updatedAtMs),
  };
}

function deploymentFields(deployment: Deployment) {
  const { id, modelId, upstreamModel, outstandingRequests, weight, priority, slots } = deployment;
  const { state, reason, until } = deployment.state;
  return {
    id,
    model: modelId,
    upstreamModel: upstreamModel ?? "",
    state,
    reason: reason ?? "",
    until: timestampOf(until === null ? null : Date.parse(until)),
    outstandingRequests,
    outstandingTokens: BigInt(Math.round(deployment.outstandingTokens)),
    weight,
    priority,
    slots,
  };
}

function checkFields({ url, kind, check, config }: CheckedUpstream) {
  if (!("facts" in check)) return { usable: false, ...check, url };
  const { version, models, latencyMs } = check.facts;
  return {
    usable: true,
    url,
    kind,
    version: version ?? "",
    models: models.map(({ id, operations, contextLength }) => ({
      id,
      capabilities: [...operations],
      contextLength: contextLength ?? undefined,
    })),
    latencyMs: BigInt(latencyMs),
    config: config ?? "",
  };
}
