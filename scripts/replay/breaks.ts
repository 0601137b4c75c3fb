import { registerHooks } from 'node:module'

/** One condition of the service that a scenario must notice the lack of. */
export interface Break {
  scenario: string
  name: string
  file: string
  /** Stands in the file once. */
  text: string
  instead: string
}

const SEQUENCER = 'shared/ledger/sequencer.ts'
const ENTRY_STORE = 'shared/ledger/entry-store.ts'

export const BREAKS: readonly Break[] = [
  {
    scenario: 'log',
    name: 'a taken number counts as numbered',
    file: SEQUENCER,
    text: 'missing = stillMissing',
    instead: 'missing = []',
  },
  {
    scenario: 'log',
    name: 'pending entries are read that an election may take back',
    file: ENTRY_STORE,
    text: '{ ...MAJORITY, projection: { pending: 1 }, hint',
    instead: '{ projection: { pending: 1 }, hint',
  },
  {
    scenario: 'log',
    name: 'the highest number is read that an election may take back',
    file: ENTRY_STORE,
    text: '.find({}, { ...MAJORITY, ...within(session), projection: { _id: 1 } })',
    instead: '.find({}, { ...within(session), projection: { _id: 1 } })',
  },
  {
    scenario: 'log',
    name: 'numbered sources are read that an election may take back',
    file: ENTRY_STORE,
    text: '.find({ source: { $in: [...sources] } }, { ...MAJORITY, ',
    instead: '.find({ source: { $in: [...sources] } }, { ',
  },
  {
    scenario: 'log',
    name: 'entries are inserted in no order',
    file: ENTRY_STORE,
    text: 'insertMany(batch, { ordered: true })',
    instead: 'insertMany(batch, { ordered: false })',
  },
  {
    scenario: 'log',
    name: 'a source may have two numbers',
    file: ENTRY_STORE,
    text: 'entrySchema.index({ source: 1 }, { unique: true })',
    instead: 'entrySchema.index({ source: 1 })',
  },
  {
    scenario: 'log',
    name: 'a narrower tile of the log replaces a wider one',
    file: 'shared/ledger/log-store.ts',
    text: 'filter: { _id: tileId({ level, index }), width: { $lt: width } }',
    instead: 'filter: { _id: tileId({ level, index }) }',
  },
  {
    scenario: 'log',
    name: 'a seal is stored before its tiles',
    file: 'shared/ledger/sealer.ts',
    text: 'await Promise.all([sealTiles.finish(tiles), logTiles.finish(log.edge())])',
    instead: 'void Promise.all([sealTiles.finish(tiles), logTiles.finish(log.edge())]).catch(() => {})',
  },
]

/** Breaks the file when it is loaded; to be called before it is. */
export function plant({ file, text, instead }: Pick<Break, 'file' | 'text' | 'instead'>): void {
  const { href } = new URL(`../../${file}`, import.meta.url)
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context)
      if (url !== href) return loaded
      const [before, after, ...more] = String(loaded.source).split(text)
      if (after === undefined || more.length > 0)
        throw new Error(`${file} does not have ${JSON.stringify(text)} once`)
      return { ...loaded, source: `${before}${instead}${after}` }
    },
  })
}
