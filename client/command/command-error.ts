import { CodedError } from '../errors.ts'

/** The command itself refuses or fails; `code` stands as `error` in what `--json` prints. */
export class CommandError extends CodedError {
  override readonly name = 'CommandError'
  readonly exitCode: number

  constructor(
    code: string,
    message: string,
    { exitCode = 1, ...options }: ErrorOptions & { exitCode?: number } = {},
  ) {
    super(code, message, options)
    this.exitCode = exitCode
  }
}

/** The error for a command line that cannot be understood: one sentence, exit code 2. */
export function usageError(message: string): CommandError {
  return new CommandError('usage', message, { exitCode: 2 })
}

/** The error for a command that was told to stop. @param cause what ended then */
export const stoppedError = (message: string, cause?: unknown): CommandError =>
  new CommandError('stopped', message, { exitCode: 130, ...(cause === undefined ? {} : { cause }) })
