/**
 * Fields of a log line that know their own JSON: for the lines that are written per request, where looking at each field
 * costs more than writing it. Whoever wants the fields reads them as those of any object.
 */
export abstract class LogEntry {
  /** The fields as members of a JSON object, each with a comma before it. */
  abstract toMembers(): string;

  /** Whether a member holds text that came from outside, in which a secret may stand. */
  abstract get holdsForeignText(): boolean;
}
