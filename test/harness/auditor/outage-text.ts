/**
 * Messages of errors caused by a server that was down, slow, full or taking over. A job that fails by one is
 * done again, by a retry or by the sweep.
 */
const OUTAGE = new RegExp(
  [
    ...[
      'ECONNREFUSED',
      'ECONNRESET',
      'EPIPE',
      'ETIMEDOUT',
      'UND_ERR_SOCKET',
      'Connection is closed',
      "Stream isn't writeable",
      'This socket has been ended by the other party',
      'Command timed out',
    ],
    ...[
      'MongoNetwork',
      'MongoServerSelection',
      'MongooseServerSelection',
      'PoolCleared',
      'MongoPoolCleared',
      // By a worker that stops, of a job that takes longer than a stop may.
      'MongoClientClosed',
      'because client was closed',
      'TRANSACTION_ABORTED. to .TRANSACTION_ABORTED',
      'Server selection timed out',
      'interrupted due to server monitor timeout',
      'Connection pool for .* was cleared',
      'connection \\d+ to .* (closed|timed out)',
    ],
    ...[
      'not primary',
      'NotWritablePrimary',
      'PrimarySteppedDown',
      'Primary stepped down',
      'stepdown request',
      'InterruptedDueToReplStateChange',
      'InterruptedAtShutdown',
      'node is recovering',
      'NotPrimary',
      'NoSuchTransaction',
      // Its message: the reason of a failed job has no code.
      'does not match any in-progress transactions',
      'has been aborted',
      'WriteConflict',
      'TransientTransactionError',
      'operation was interrupted',
      'operation exceeded time limit',
    ],
    ...[
      'unavailable: ',
      'cannot reach its database now',
      'did not finish this request in time',
      'did not answer within',
      'OOM command not allowed',
      'MISCONF',
      'LOADING',
      'max retries per request',
      'UNCERTAIN',
    ],
    // A worker that was stopped for longer than its lock lost its job to another one.
    ...['could not renew lock', 'Missing lock for job', 'Lock mismatch', 'is not in the active state'],
    // A process that was stopped lost the lease of its wallet or seal key to another one.
    'lease of the .* is another process.s by now',
    // Signing waits for the numbering, which waits for MongoDB. That all is signed at the end is checked
    // then.
    'is not signed yet: its ledger entry has no number',
    // A worker can't complete a job that a flush of Redis has erased.
    'Missing key for job',
  ].join('|'),
  'i',
)

/** Whether an error's text is one of these. */
export const isOutageText = (text: string): boolean => OUTAGE.test(text)
