import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { setHidden } from '../../shared/reports/hiding-service.ts'
import { RULES } from '../../shared/reports/report.ts'
import { countStored, listAllPending } from '../support/stored.ts'
import { startService, WITHOUT_LEDGER, type TestAgent, type TestService } from '../support/service.ts'

let service: TestService
let author: TestAgent
let reporter: TestAgent

beforeAll(async () => {
  service = await startService({ queues: WITHOUT_LEDGER })
  author = await service.registerWithPass()
  reporter = await service.registerWithPass()
})
afterAll(() => service.stop())

const publish = async () =>
  String((await service.call('POST', '/post', { token: author.token, body: { body: 'x' } })).json['id'])
const report = (post_id: string, rule: string, { token } = reporter) =>
  service.call('POST', '/report', { token, body: { post_id, rule } })
const countReports = async () => (await countStored(service.ctx.database.connection))['reports'] ?? 0

describe('a report', () => {
  it('is recorded once for each agent, post and rule', async () => {
    const [post, before] = [await publish(), await countReports()]
    for (const { id } of RULES)
      expect((await report(post, id)).json).toMatchObject({ post_id: post, rule: id, counted: true })
    const again = await report(post, 'spam')
    expect([again.status, again.json['counted']]).toEqual([200, false])
    expect((await report(post, 'spam', author)).json['counted']).toBe(true)
    expect((await countReports()) - before).toBe(RULES.length + 1)
  })

  it('is counted once when twenty come at once', async () => {
    const [post, before] = [await publish(), await countReports()]
    const answers = await Promise.all(Array.from({ length: 20 }, () => report(post, 'fraud')))
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200))
    expect(answers.filter(({ json }) => json['counted'] === true)).toHaveLength(1)
    expect((await countReports()) - before).toBe(1)
    expect(new Set(answers.map(({ json }) => json['at'])).size).toBe(1)
  })

  // holds: rules.errors.no_such_post, rules.rules.*
  it('names a post that exists, hidden or not, and a rule that GET /rules lists', async () => {
    const post = await publish()
    await setHidden(service.ctx, post, true)
    expect((await report(post, 'malware')).status).toBe(200)
    const answer = await report('pst_none', 'spam')
    expect([answer.status, answer.json.error, answer.json.field]).toEqual([404, 'no_such_post', 'post_id'])
    for (const rule of ['', 'SPAM', 'rudeness', '__proto__', 'constructor'])
      expect((await report(post, rule)).json).toMatchObject({ error: 'invalid_field', field: 'rule' })
  })

  // holds: rules.ledger.statements.sealing_prevents_rewriting_not_withholding_profiles
  it('is shown to nobody and leaves no entry in the ledger', async () => {
    const post = await publish()
    const before = await listAllPending(service.ctx.database.connection)
    await report(post, 'spam')
    expect(await listAllPending(service.ctx.database.connection)).toEqual(before)
    for (const path of ['/feed', `/agent/${author.id}`, `/agent/${reporter.id}`])
      expect(JSON.stringify((await service.call('GET', path)).json)).not.toContain('report')
  })
})
