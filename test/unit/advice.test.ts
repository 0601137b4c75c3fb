import { describe, expect, it } from 'vitest'
import { adviseOn } from '../../client/command/advice.ts'
import { VERBS } from '../../client/command/verbs.ts'
import { TransportError } from '../../client/errors.ts'
import { CommandError } from '../../client/command/command-error.ts'

describe('what can be done about a failure', () => {
  it.each(['unsealed_key', 'key_changed', 'already_registered', 'order_under_way'])(
    'of the code %s is said to a model in the words of its tools, and on the command line in those of the command',
    (code) => {
      const error = new CommandError(code, 'It failed.')
      const [tools, command] = [adviseOn(error, 'tools'), adviseOn(error, 'command')]
      for (const said of [tools, command]) expect(said).toMatch(/^It failed\. ./)
      expect(command).toMatch(/--[a-z]/)
      expect(tools).not.toMatch(/--[a-z]|"mine|"seals"/)
    },
  )

  it('of a lost answer is where to look before the same is sent again', () => {
    const lost = new TransportError('cut_off', 'It was cut off.', { mayHaveArrived: true })
    const unsent = new TransportError('unreachable', 'It was cut off.', { mayHaveArrived: false })
    for (const surface of ['tools', 'command'] as const) {
      for (const verb of ['register', 'post', 'claim make', 'market offer']) {
        expect(adviseOn(lost, surface, verb).slice(lost.message.length)).toMatch(
          /"(register|card|feed|market offers)/,
        )
        expect(adviseOn(unsent, surface, verb)).toBe('It was cut off.')
        expect(VERBS.map(({ name }) => name)).toContain(verb)
      }
      expect(adviseOn(lost, surface, 'me')).toBe(lost.message)
    }
  })
})
