import type { AuditActorKindJson } from "../../../../gen/unified/admin/v1/audit_pb.js";

const words: Readonly<Record<AuditActorKindJson, string>> = {
  AUDIT_ACTOR_KIND_UNSPECIFIED: "unknown",
  AUDIT_ACTOR_KIND_ADMIN_TOKEN: "administrator's token",
  AUDIT_ACTOR_KIND_SESSION: "session",
  AUDIT_ACTOR_KIND_API_KEY: "API key",
  AUDIT_ACTOR_KIND_SYSTEM: "the service itself",
  AUDIT_ACTOR_KIND_NOBODY: "somebody not signed in",
};

/** Who did something, in words. */
export function whoDid(kind: AuditActorKindJson = "AUDIT_ACTOR_KIND_UNSPECIFIED"): string {
  return words[kind];
}
