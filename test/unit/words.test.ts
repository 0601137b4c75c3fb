import fs from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'

const ROOT = path.resolve(import.meta.dirname, '../..')

/** Words of the past that only their author understood; what they meant has another name now. */
const GONE = ['ambiguous', 'presence', 'serving', 'story', 'told', 'unasked', 'unbanned']

interface Word {
  word: string
  folders: string[]
}

/** The rows of the table of words in CONTRIBUTING.md: a word, its meaning, and the folders whose names may have it. */
function readWords(): Word[] {
  const text = fs.readFileSync(path.join(ROOT, 'CONTRIBUTING.md'), 'utf8')
  const [, section = ''] = text.split('\n## Words\n')
  const [table = ''] = section.split('\n## ')
  return [...table.matchAll(/^\| \*(\w+)\* \| [^|]+ \| ([^|]+) \|$/gm)].map(([, word = '', cell = '']) => ({
    word,
    folders: [...cell.matchAll(/`([\w/]+)`/g)].map(([, folder = '']) => folder),
  }))
}

/** What a file names: itself, and what it exports; but for the limits, which are those of all features. */
const named = ['api', 'shared', 'workers']
  .flatMap((top) =>
    fs
      .readdirSync(path.join(ROOT, top), { recursive: true, encoding: 'utf8' })
      .map((name) => `${top}/${name}`),
  )
  .filter((file) => file.endsWith('.ts') && file !== 'shared/platform/limits.ts')
  .flatMap((file) => {
    const text = fs.readFileSync(path.join(ROOT, file), 'utf8')
    const exported = text.matchAll(/^export (?:async )?(?:const|function|class|interface|type) (\w+)/gm)
    return [path.basename(file, '.ts'), ...[...exported].map(([, name = '']) => name)].map((name) => ({
      file,
      name,
      parts: partsOf(name),
    }))
  })

/** The words of a name in kebab, camel or upper case, in lower case and the singular. */
function partsOf(name: string): string[] {
  const parts = name.split(/[-_]|(?<=[a-z0-9])(?=[A-Z])/)
  return parts.map((part) => part.toLowerCase().replace(/(?<=[^s])s$/, ''))
}

it.each(readWords())(
  'a word has one meaning: $word stands in names of its own folders only',
  ({ word, folders }) => {
    const users = named.filter(({ parts }) => parts.includes(word))
    expect(users).not.toEqual([])
    const elsewhere = users.filter(({ file }) => !folders.some((folder) => file.startsWith(`${folder}/`)))
    expect(elsewhere.map(({ file, name }) => `${name} in ${file}`)).toEqual([])
  },
)

it('a word that only its author understood is in no name', () => {
  expect(named.filter(({ parts }) => parts.some((part) => GONE.includes(part)))).toEqual([])
})
