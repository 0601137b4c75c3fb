import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../scripts/embedded/wait.ts'
import { writeAdoption } from '../../shared/ledger/adoption-file.ts'
import { ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { openSealMemory } from '../../shared/ledger/seal-memory.ts'
import { sealPayloadHash } from '../../shared/crypto/seal-payload.ts'
import { verifyLedger } from '../support/ledger.ts'
import { HANDLERS } from '../../workers/handlers.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { startService, type TestService } from '../support/service.ts'

let folder: string
let service: TestService
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-network-schedule-'))
})
afterEach(async () => {
  await service.stop()
  fs.rmSync(folder, { recursive: true, force: true })
})

const soon = { limitMs: PATIENCE_MS }
// What is waited for comes one after the other.
vi.setConfig({ testTimeout: 240_000 })
const keyFiles = () => ({
  SEAL_KEY_FILE: path.join(folder, 'seal-key'),
  SEAL_MEMORY_FILE: path.join(folder, 'seal-memory'),
})

describe('the workers, by themselves', () => {
  it('number, seal and sign what was written, and walk the chain', async () => {
    ensureSealKey(keyFiles().SEAL_KEY_FILE)
    const sequence = vi.spyOn(HANDLERS, 'sequence')
    service = await startService({ env: { ...keyFiles(), SEAL_INTERVAL_SECONDS: '1' } })
    await service.register()
    await waitFor(
      'a signed seal',
      async () => ((await service.ctx.seals.lastSigned()) === undefined ? undefined : true),
      soon,
    )
    await service.register()
    await waitFor(
      'the next one',
      async () => (((await service.ctx.seals.lastSigned())?._id ?? 0) >= 2 ? true : undefined),
      soon,
    )
    await waitFor(
      'a walk',
      async () => ((await service.ctx.seals.readStatus()).walked_at === undefined ? undefined : true),
      soon,
    )
    const { entries, seals } = await verifyLedger(service.ctx, [], true)
    expect(entries.filter(({ kind }) => kind === 'registration')).toHaveLength(2)
    expect(seals.length).toBe(2)
    // No new entry, no new seal.
    sequence.mockClear()
    await waitFor('some turns', () => (sequence.mock.settledResults.length > 3 ? true : undefined), soon)
    sequence.mockRestore()
    expect((await service.ctx.seals.last())?._id).toBe(2)
  })

  it('leave seals unsigned without a key, and stop where the memory is gone until a seal is adopted', async () => {
    const { SEAL_KEY_FILE: keyFile, SEAL_MEMORY_FILE: memoryFile } = keyFiles()
    service = await startService({ env: { ...keyFiles(), SEAL_INTERVAL_SECONDS: '1' } })
    const { ctx } = service
    await service.register()
    await waitFor(
      'an unsigned seal',
      async () => ((await ctx.seals.last())?.signed === false ? true : undefined),
      soon,
    )
    expect((await service.call('GET', '/seal')).json).toMatchObject({
      unsigned_seqs: [1],
      chain_intact: true,
    })
    ensureSealKey(keyFile)
    const first = await waitFor('its signature', () => ctx.seals.lastSigned(), soon)
    fs.rmSync(memoryFile)
    await service.register()
    await waitFor(
      'the refusal in the log',
      () => (service.logged().includes('there is no seal memory') ? true : undefined),
      soon,
    )
    expect((await ctx.seals.lastSigned())?._id).toBe(1)
    // While it is being signed with, the seal memory is another's; the decision stands, and is carried out
    // after that.
    const held = await waitFor('the seal memory', () => openSealMemory(memoryFile), soon)
    const config = { ...ctx.config, secrets: { ...ctx.config.secrets, sealMemoryFile: memoryFile } }
    await writeAdoption({ ...ctx, config }, 1, sealPayloadHash({ seq: first._id, ...first }))
    held.close()
    await waitFor(
      'signing to go on',
      async () => (((await ctx.seals.lastSigned())?._id ?? 0) > 1 ? true : undefined),
      soon,
    )
    const { entries } = await verifyLedger(ctx, [], true)
    expect(
      await waitFor(
        'the adoption on record',
        async () => (await ctx.entries.listByRecord('seal_1')).find(({ kind }) => kind === 'seal_adoption'),
        soon,
      ),
    ).toMatchObject({ data: { seal: 'seal_1' } })
    expect(entries.length).toBeGreaterThan(3)
  })
})
