import { type ClientAnswer, ServiceClient } from "../service-client.js";
import type { RunningService } from "../start-service.js";

/** An upstream as `UpstreamService` returns it, in JSON without empty fields. */
export interface UpstreamJson {
  readonly name: string;
  readonly source: string;
  readonly keyHint?: string;
  readonly problem?: string;
  readonly deployments?: readonly DeploymentJson[];
}

export interface DeploymentJson {
  readonly id: string;
  readonly model: string;
  readonly state: string;
  readonly outstandingRequests?: number;
}

/** Calls of an administrator and of a user of a service with upstreams. */
export class UpstreamCalls {
  readonly user: ServiceClient;
  readonly #admin: ServiceClient;

  constructor({ http, key, adminToken }: Pick<RunningService, "http" | "key" | "adminToken">) {
    this.user = new ServiceClient(http, key);
    this.#admin = new ServiceClient(http, adminToken);
  }

  /** A method of `UpstreamService`. */
  call(method: string, message: object = {}): Promise<ClientAnswer> {
    return this.#admin.rpc(`unified.admin.v1.UpstreamService/${method}`, message);
  }

  create(upstream: object, secrets: object = {}): Promise<ClientAnswer> {
    return this.call("CreateUpstream", { upstream, ...secrets });
  }

  drain(id: string, drain = true): Promise<ClientAnswer> {
    return this.call("DrainDeployment", { id, drain });
  }

  async list(): Promise<readonly UpstreamJson[]> {
    const { json } = await this.call("ListUpstreams");
    return (json["upstreams"] ?? []) as UpstreamJson[];
  }

  async deployments(): Promise<readonly DeploymentJson[]> {
    return (await this.list()).flatMap(({ deployments = [] }) => deployments);
  }

  async modelIds(): Promise<readonly string[]> {
    const { json } = await this.user.get("/v1/models");
    return (json["data"] as { id: string }[]).map(({ id }) => id);
  }
}
