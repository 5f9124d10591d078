import { SessionService } from "../../../gen/unified/admin/v1/session_service_pb.js";
import { type CliIo, printJson, printLine } from "../cli-io.js";
import type { ConfigOptions } from "./load-for-command.js";
import { administratorTarget, serviceClient, toCommandError } from "./service-client.js";

interface Options extends ConfigOptions {
  readonly json?: boolean;
}

/** `uis admin link` */
export async function adminLink(io: CliIo, options: Options): Promise<void> {
  const target = await administratorTarget(io, options);
  try {
    const { path } = await serviceClient(SessionService, target).createSetupLink({});
    const url = target.url + path;
    if (options.json) printJson(io, { url });
    else printLine(io, `${url}\n\nGood for one use within an hour.`);
  } catch (error) {
    throw toCommandError(error, target);
  }
}
