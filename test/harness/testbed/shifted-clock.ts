/*
 * Loaded into a process of the network (node --import) to shift its clock: the number of milliseconds in the
 * file CLOCK_FILE is added to the time of day. On SIGUSR2 the file is read again. The monotonic clock stays,
 * as with a real clock.
 */
import fs from 'node:fs'

const { CLOCK_FILE } = process.env
if (CLOCK_FILE === undefined) throw new Error('CLOCK_FILE is not set')
const file = CLOCK_FILE
const RealDate = Date
const realNow = Date.now.bind(Date)
let shiftMs = 0

const readShift = (): void => {
  shiftMs = fs.existsSync(file) ? Number(fs.readFileSync(file, 'utf8')) : 0
}
readShift()
process.on('SIGUSR2', readShift)

globalThis.Date = new Proxy(RealDate, {
  construct: (target, given, newTarget) =>
    Reflect.construct(target, given.length === 0 ? [realNow() + shiftMs] : given, newTarget) as Date,
  apply: () => new RealDate(realNow() + shiftMs).toString(),
  get: (target, name, receiver) =>
    name === 'now' ? () => realNow() + shiftMs : (Reflect.get(target, name, receiver) as unknown),
})
