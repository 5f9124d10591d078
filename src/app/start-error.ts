/** The service cannot start: the message names the cause, `fix` what the operator can do. Ends the command with exit code 2. */
export class StartError extends Error {
  override readonly name = "StartError";
  readonly fix: string;
  constructor(message: string, fix: string, options?: ErrorOptions) {
    super(message, options);
    this.fix = fix;
  }
}
