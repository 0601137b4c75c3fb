import { expect, it } from 'vitest'
import { createModelCollection } from '../harness/simulation/collection.ts'
import { ReplicaSet } from '../harness/simulation/replica-set.ts'
import { Schedule } from '../harness/simulation/schedule.ts'

/** Three clients insert at once, under elections. @returns ids that were acknowledged and are gone */
async function loseWrites(seed: number): Promise<string[]> {
  const schedule = new Schedule(seed, Date.UTC(2026, 0, 1))
  const rates = { lost: 0, election: 0.3, elections: 10, rediscover: 0.5, replicate: 0.3 }
  const set = new ReplicaSet(schedule, rates, () => [])
  const collection = createModelCollection(
    'things',
    () => ({ schedule, set }),
    () => ({ _id: 1 }),
  )
  const acknowledged: string[] = []
  for (const client of ['a', 'b', 'c']) {
    const process = schedule.createProcess(client)
    set.processes.push(process)
    void schedule.run(process, async () => {
      for (let count = 0; count < 5; count++) {
        const _id = `${client}${count}`
        const isStored = await collection.insertOne({ _id }).then(
          () => true,
          () => false,
        )
        if (isStored) acknowledged.push(_id)
      }
    })
  }
  for (let step = 0; step < 300; step++) await schedule.step()
  schedule.isCalm = true
  while (await schedule.step());
  const stored = new Set(set.lasting('things').map(({ _id }) => _id))
  return acknowledged.filter((id) => !stored.has(id))
}

it('acknowledges no write that an election has taken back, whatever was written since', async () => {
  for (let seed = 1; seed <= 100; seed++) expect(await loseWrites(seed), `seed ${seed}`).toEqual([])
})
