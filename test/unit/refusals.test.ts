import { expect, test } from 'vitest'
import { noteError } from '../../api/http/refusals.ts'
import { createLog } from '../../shared/platform/log.ts'

test('a defect is logged, and answered without its details', () => {
  let logged = ''
  const log = createLog('test', 'info', { write: (line: string) => void (logged += line) })
  const defect = new Error('the collection entries at db.internal:27017 has no such index')
  const { code, message } = noteError(defect, log, () => undefined, 'req_1')
  expect([code, message]).toEqual(['internal', 'The service failed at this request; it has been logged.'])
  expect(logged).toContain(defect.message)
  expect(logged).toContain('req_1')
})
