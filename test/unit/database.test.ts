import mongoose from 'mongoose'
import { describe, expect, it } from 'vitest'
import { isDuplicateKey, isOutage } from '../../shared/platform/database.ts'

const { MongoBulkWriteError, MongoNetworkError, MongoServerError } = mongoose.mongo
const named = (name: string) => Object.defineProperty(new Error('x'), 'name', { value: name })
// The driver's own way of wrapping what ended an insert of many.
const inBulk = (error: { message: string }) => new MongoBulkWriteError(error as never, {} as never)

describe('isOutage', () => {
  it('knows what the driver throws when the server is away, also inside an insert of many and as a cause', () => {
    const outages = [
      new MongoNetworkError('gone'),
      new MongoServerError({ message: 'stepping down', code: 10_107 }),
      new MongoServerError({ message: 'no committed OpTime for snapshot read', code: 246 }),
      new MongoServerError({ message: 'again', errorLabels: ['TransientTransactionError'] }),
      // MongoDB 8 and 9, which have too much under way.
      new MongoServerError({ message: 'slow down', code: 462, codeName: 'IngressRequestRateLimitExceeded' }),
      new MongoServerError({
        message: 'slow down',
        errorLabels: ['SystemOverloadedError', 'RetryableError'],
      }),
      new MongoServerError({ message: 'too many', codeName: 'TooManyOpenTransactions' }),
    ]
    outages.push(
      ...([
        'MongoServerSelectionError',
        'MongoExpiredSessionError',
        'MongoPoolClearedError',
        'PoolClearedOnNetworkError',
        'MongoWaitQueueTimeoutError',
        'MongoNotConnectedError',
        'MongooseServerSelectionError',
      ].map(named) as never[]),
    )
    const endedTwice = named('MongoRuntimeError')
    endedTwice.message =
      'Attempted illegal state transition from [TRANSACTION_ABORTED] to [TRANSACTION_ABORTED]'
    outages.push(endedTwice as never)
    for (const error of outages) {
      expect(isOutage(error), error.name).toBe(true)
      expect(isOutage(inBulk(error)), `${error.name} in a bulk`).toBe(true)
      expect(isOutage(new Error('wrapped', { cause: error })), `${error.name} as a cause`).toBe(true)
    }
  })

  it('takes no defect and no refused write for one', () => {
    const duplicate = new MongoServerError({ message: 'E11000 duplicate key', code: 11_000 })
    for (const error of [
      new TypeError('x'),
      named('MongooseError'),
      duplicate,
      inBulk(duplicate),
      new MongoServerError({ message: 'bad query', code: 2 }),
      // What Node says of a socket; the driver has errors of its own for that, so it's another server's.
      Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }),
      'MongoNetworkError',
      undefined,
      null,
    ])
      expect(isOutage(error)).toBe(false)
  })
})

describe('isDuplicateKey', () => {
  const message =
    'E11000 duplicate key error collection: db.agents index: token_key_1_at_1 dup key: { token_key: "a", at: " dup key: { challenge: " }'

  it('tells the index by the field it begins with, alone and in an insert of many', () => {
    for (const error of [
      new MongoServerError({ message, code: 11_000 }),
      inBulk({ message, code: 11_000 } as never),
    ]) {
      expect([
        isDuplicateKey(error),
        isDuplicateKey(error, 'token_key'),
        isDuplicateKey(error, 'at'),
        isDuplicateKey(error, 'challenge'),
      ]).toEqual([true, true, false, false])
    }
    expect(isDuplicateKey(new MongoServerError({ message, code: 2 }))).toBe(false)
    expect(isDuplicateKey(new Error(message))).toBe(false)
  })
})
