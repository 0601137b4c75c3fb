import mongoose from 'mongoose'

const { MongoBulkWriteError, MongoNetworkError, MongoServerError } = mongoose.mongo

/** The errors that MongoDB and its driver make, as the service tells them apart. */

export function networkError(what: string, ...labels: string[]): Error {
  const error = new MongoNetworkError(`connection closed: ${what}`)
  for (const label of labels) error.addErrorLabel(label)
  return error
}

export const writeConflict = () =>
  new MongoServerError({
    message: 'WriteConflict',
    code: 112,
    codeName: 'WriteConflict',
    errorLabels: ['TransientTransactionError'],
  })

export const noSuchTransaction = () =>
  new MongoServerError({
    message: 'the transaction has been aborted',
    code: 251,
    codeName: 'NoSuchTransaction',
    errorLabels: ['TransientTransactionError'],
  })

export const duplicateKey = (collection: string, key: Readonly<Record<string, unknown>>) =>
  new MongoServerError({
    message: `E11000 duplicate key error collection: ${collection} index: model dup key: { ${Object.entries(
      key,
    )
      .map(([path, value]) => `${path}: ${JSON.stringify(value)}`)
      .join(', ')} }`,
    code: 11_000,
    keyValue: key,
  })

/** The error of an insertMany or bulkWrite some of whose writes were refused. */
export function bulkError(failed: readonly { index: number; error: Error }[]): Error {
  const writeErrors = failed.map(({ index, error }) => ({
    index,
    code: Number((error as { code?: unknown }).code),
    errmsg: error.message,
  }))
  const [{ code, errmsg: message } = { code: 0, errmsg: '' }] = writeErrors
  const result = { getWriteConcernError: () => undefined, getWriteErrors: () => writeErrors }
  return new MongoBulkWriteError({ message, code, writeErrors } as never, result as never)
}
