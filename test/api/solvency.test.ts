import { afterAll, beforeAll, expect, it } from 'vitest'
import { newId } from '../../shared/platform/ids.ts'
import { startService, type TestService } from '../support/service.ts'

let service: TestService
beforeAll(async () => {
  service = await startService({ queues: [] })
})
afterAll(() => service.stop())

it('GET /solvency shows nothing before the first seal, and refuses a seal that there is not', async () => {
  expect((await service.call('GET', '/solvency')).json).toMatchObject({
    ...{ ok: true, seal: null, liabilities: null, assets: null, control: { xno: [], xmr: [] } },
  })
  const refused = await service.call('GET', '/solvency?seq=9')
  expect([refused.status, refused.json['error']]).toEqual([404, 'no_such_seal'])
})

it('GET /solvency/proofs lists all proofs of control, of a coin and after an id too', async () => {
  const { controls } = service.ctx.coins
  const proof = (coin: 'xno' | 'xmr', seal_seq: number) => ({
    _id: newId('control_proof'),
    ...{
      coin,
      at: 5,
      seal_seq,
      seal_hash: 'ab'.repeat(32),
      account: `of ${coin}`,
      message: 'm',
      signature: 's',
    },
    ...(coin === 'xmr' ? { total_raw: '7' } : {}),
  })
  const made = [proof('xno', 1), proof('xmr', 1), proof('xno', 2)]
  await service.ctx.database.transaction((session) => controls.add(made, session))
  await expect(
    service.ctx.database.transaction((session) => controls.add([proof('xno', 2)], session)),
  ).rejects.toThrow(/duplicate key/)
  const list = async (query: string) =>
    (await service.call('GET', `/solvency/proofs${query}`)).json as unknown as { proofs: { id: string }[] }
  expect((await list('')).proofs.map(({ id }) => id)).toEqual(made.map(({ _id }) => _id))
  expect((await list('?coin=xmr')).proofs).toMatchObject([{ address: 'of xmr', total_raw: '7' }])
  expect((await list(`?coin=xno&after=${made[0]?._id}`)).proofs).toMatchObject([
    { account: 'of xno', seal_seq: 2 },
  ])
  expect((await service.call('GET', '/solvency')).json['control']).toMatchObject({
    xno: [{ seal_seq: 2 }],
    xmr: [{ seal_seq: 1 }],
  })
})
