import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";

export type KeyStatus = "active" | "expired" | "revoked";

export function keyStatus({ revokedAt, expiresAt }: ApiKeyJson, nowMs: number): KeyStatus {
  if (revokedAt !== undefined) return "revoked";
  return expiresAt !== undefined && new Date(expiresAt).getTime() <= nowMs ? "expired" : "active";
}
