import {
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  ServerListenerBuilder,
  status,
} from "@grpc/grpc-js";

/** Calls of services that need no credential (health, reflection). Some of them never end by themselves. */
export class PassingCalls {
  readonly #live = new Set<ServerInterceptingCallInterface>();

  pass(call: ServerInterceptingCallInterface): ServerInterceptingCall {
    this.#live.add(call);
    const listener = new ServerListenerBuilder().withOnCancel(() => this.#live.delete(call)).build();
    return new ServerInterceptingCall(call, { start: (next) => next(listener) });
  }

  /** Ends all of them, so that a watch does not hold up a drain. */
  endAll(): void {
    for (const call of [...this.#live]) {
      call.sendStatus({ code: status.UNAVAILABLE, details: "The service is stopping." });
    }
  }
}
