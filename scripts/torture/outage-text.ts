/**
 * What errors say when a server was away, slow, full or just taking over: the job comes back, by its retries
 * or the sweep.
 */
const OUTAGE = new RegExp(
  [
    ...[
      'ECONNREFUSED',
      'ECONNRESET',
      'EPIPE',
      'ETIMEDOUT',
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
    // A worker that was stopped for longer than its lock finds its job with another one.
    ...['could not renew lock', 'Missing lock for job', 'Lock mismatch', 'is not in the active state'],
    // A process that was held up finds that another one has its wallet or its seal key by now.
    'lease of the .* is another process.s by now',
    // The numbering waits for its server, and what is to be signed for its number. That all is signed in the
    // end is asked at rest.
    'is not signed yet: its ledger entry has no number',
    // A worker whose job was erased with all of Redis cannot say that it is done.
    'Missing key for job',
  ].join('|'),
  'i',
)

export const isOutageText = (text: string): boolean => OUTAGE.test(text)
