/** The command itself refuses or fails; `code` stands as `error` in what `--json` prints. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly code: string
  readonly exitCode: number

  constructor(code: string, message: string, options: { exitCode?: number; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.exitCode = options.exitCode ?? 1
  }
}

/** The error for a command line that cannot be understood: one sentence, exit code 2. */
export function usageError(message: string): CommandError {
  return new CommandError('usage', message, { exitCode: 2 })
}
