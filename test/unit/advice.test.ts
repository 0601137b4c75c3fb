import { describe, expect, it } from 'vitest'
import { adviseOn } from '../../client/command/advice.ts'
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
})
