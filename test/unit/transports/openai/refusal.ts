import { expect } from "vitest";
import type { ErrorCode } from "../../../../src/contract/errors.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";

/** Expects that `act` throws a ServiceError of this code that names `param`. */
export function expectRefusal(act: () => unknown, code: ErrorCode, param: string | null): ServiceError {
  try {
    act();
  } catch (error) {
    expect(error).toBeInstanceOf(ServiceError);
    const refusal = error as ServiceError;
    expect({ code: refusal.code, param: refusal.param }).toEqual({ code, param });
    if (param !== null) expect(refusal.message).toContain(param);
    return refusal;
  }
  throw new Error(`nothing was refused; expected ${code} at ${param}`);
}
