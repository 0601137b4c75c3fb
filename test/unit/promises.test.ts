import { describe, expect, it } from 'vitest'
import { RULE_IDS } from '../../shared/reports/report.ts'
import { findUnknown, findUntagged, listPromises, readAllTags, readTags } from '../support/promises.ts'

const promises = listPromises()

describe('the promises', () => {
  // holds: contract.change_policy.behaviour_changes_are_not_silent_a
  it('are each held by a test that names them, and no test names one that there is not', () => {
    expect(promises.length).toBeGreaterThan(300)
    const { held, misplaced } = readAllTags()
    expect(findUntagged(promises, held)).toEqual([])
    expect(findUnknown(promises, held)).toEqual([])
    expect(misplaced).toEqual([])
  })

  it('are missed if they are new, and if they are gone', () => {
    const stated = ['limits.a', 'limits.b.c'].map((key) => ({ key, text: 'It is so.' }))
    expect(findUntagged(stated, ['limits.a'])).toEqual(['limits.b.c: It is so.'])
    expect(findUntagged(stated, ['limits.*'])).toEqual([])
    expect(findUnknown(stated, ['limits.a', 'limits.b', 'rules.*'])).toEqual(['limits.b', 'rules.*'])
  })

  it('are read from the comments above tests and headings alone', () => {
    // In two parts, so that this file's own tags are read alone.
    const tag = '// ' + 'holds:'
    const source = `
  ${tag} a.b, c
  ${tag} d.*
  it('is so', () => {})
  ${tag} e
  it.skip('is not run', () => {})
${tag} f
const text = 1
${tag} g
describe('all of it', () => {})
`
    expect(readTags(source)).toEqual({ held: ['a.b', 'c', 'd.*', 'g'], misplaced: ['e', 'f'] })
  })

  // holds: rules.rules.*
  it('say each rule that a report or the operator can name', () => {
    expect(
      promises.filter(({ key }) => key.startsWith('rules.rules.')).map(({ key }) => key.split('.')[2]),
    ).toEqual(RULE_IDS)
  })
})
