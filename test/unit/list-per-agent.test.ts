import { expect, it } from 'vitest'
import { MAX_LIST_PAGES } from '../../shared/platform/limits.ts'
import { listPerAgent, type Past } from '../../shared/platform/list-per-agent.ts'

interface Listed {
  _id: string
  agent_id: string
}

/** A list in its order, by the authors of its records, and what was asked of it. */
function listOf(authors: readonly string[]) {
  const records = authors.map((author, index) => ({ _id: String(index).padStart(4, '0'), agent_id: author }))
  const asked: (Past<Listed> | undefined)[] = []
  const read = (limit: number) => (past?: Past<Listed>) => {
    asked.push(past)
    const left = records.filter(
      ({ _id, agent_id: author }) =>
        past === undefined || (_id > past.after._id && !past.notBy.includes(author)),
    )
    return Promise.resolve(left.slice(0, limit))
  }
  return { asked, read }
}
const authorsOf = (records: readonly Listed[]) => records.map(({ agent_id: author }) => author).join('')

it('a list without a bound is what one read gives', async () => {
  const { asked, read } = listOf([...'aaab'])
  expect(authorsOf(await listPerAgent(3, undefined, read(3)))).toBe('aaa')
  expect(asked).toEqual([undefined])
})

it('a list has at most so many of one agent, in its order, and others in the place of the rest', async () => {
  const { read } = listOf([...'aabaaaacaabd'])
  expect(authorsOf(await listPerAgent(5, 1, read(5)))).toBe('abcd')
  expect(authorsOf(await listPerAgent(5, 2, read(5)))).toBe('aabcb')
  expect(authorsOf(await listPerAgent(2, 1, read(2)))).toBe('ab')
})

it('an agent that has its share is left out of the next read, so a flood costs one read and not many', async () => {
  const { asked, read } = listOf([...'a'.repeat(500), ...'bc'])
  expect(authorsOf(await listPerAgent(3, 1, read(3)))).toBe('abc')
  expect(asked).toEqual([undefined, { after: { _id: '0002', agent_id: 'a' }, notBy: ['a'] }])
})

it('a list is read a bounded number of times, even if no read brings another agent', async () => {
  let reads = 0
  const sameAgent = () => {
    reads += 1
    return Promise.resolve([0, 1].map((index) => ({ _id: `${reads} ${index}`, agent_id: 'a' })))
  }
  expect(await listPerAgent(2, 1, sameAgent)).toHaveLength(1)
  expect(reads).toBe(MAX_LIST_PAGES)
})
