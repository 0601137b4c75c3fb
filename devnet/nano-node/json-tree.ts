/** Fields in the order given; keys may repeat. */
export class Pairs {
  readonly entries: [string, Tree][]

  constructor(entries: Iterable<[string, Tree]> = []) {
    this.entries = [...entries]
  }

  add(key: string, value: Tree): void {
    this.entries.push([key, value])
  }
}

/** The node's form of JSON: texts are its only scalars. */
export type Tree = string | readonly Tree[] | Pairs | { readonly [name: string]: Tree }

type Fields = Pairs | { readonly [name: string]: Tree }

/** The fields as pairs of key and value, in their order. */
function fieldsOf(fields: Fields): readonly [string, Tree][] {
  return fields instanceof Pairs ? fields.entries : Object.entries(fields)
}

/** A request can't be read: malformed JSON, or a field that must be there is missing. */
export class UnreadableRequest extends Error {}

/** JSON of a text, with / escaped as the node does. */
function formatText(text: string): string {
  return JSON.stringify(text).replaceAll('/', '\\/')
}

/**
 * JSON of a part of a tree, without the newline at the end.
 *
 * @param indent the blanks before the part's line
 */
function formatNode(node: Tree, indent: string): string {
  if (typeof node === 'string') return formatText(node)
  const inner = `${indent}    `
  const isList = Array.isArray(node)
  const lines = isList
    ? (node as readonly Tree[]).map((item) => inner + formatNode(item, inner))
    : fieldsOf(node as Fields).map(
        ([key, value]) => `${inner}${formatText(key)}: ${formatNode(value, inner)}`,
      )
  if (lines.length === 0) return '""'
  const text = `\n${lines.join(',\n')}\n${indent}`
  return isList ? `[${text}]` : `{${text}}`
}

/** JSON as the node writes it: 4 blanks a level, empty lists and objects as "", a newline at the end. */
export function formatTree(tree: Tree): string {
  return `${formatNode(tree, '')}\n`
}

/** Makes a tree of parsed JSON: numbers, booleans and null become texts. */
function toTree(value: unknown): Tree {
  if (Array.isArray(value)) return value.map(toTree)
  if (typeof value === 'object' && value !== null) {
    const pairs = new Pairs()
    for (const [key, child] of Object.entries(value)) pairs.add(key, toTree(child))
    return pairs
  }
  return String(value)
}

/**
 * Parses JSON; numbers, booleans and null become texts.
 *
 * @throws UnreadableRequest for text that is not JSON
 */
export function parseTree(text: string): Tree {
  try {
    return toTree(JSON.parse(text))
  } catch (cause) {
    throw new UnreadableRequest('not JSON', { cause })
  }
}

/** Reads the fields of a tree. A field that is no text reads as an empty text. */
export interface TreeReader {
  has(name: string): boolean
  /** @throws UnreadableRequest if the field is missing */
  text(name: string): string
  optionalText(name: string): string | undefined
  /** True for "true" and "1", false for "false" and "0", the default for anything else. */
  flag(name: string, byDefault: boolean): boolean
  child(name: string): Tree | undefined
  /**
   * The texts of a list or of fields; a text in place of a list gives none.
   *
   * @throws UnreadableRequest if the field is missing
   */
  texts(name: string): string[]
}

/** The children of a list or of fields, those that are not texts as empty texts. */
export function childTexts(tree: Tree): string[] {
  if (typeof tree === 'string') return []
  const children = Array.isArray(tree)
    ? (tree as readonly Tree[])
    : fieldsOf(tree as Fields).map(([, value]) => value)
  return children.map((child) => (typeof child === 'string' ? child : ''))
}

/**
 * Makes a reader of a tree's fields; anything but fields has none. If a key repeats, its last value counts.
 */
export function readTree(tree: Tree | undefined): TreeReader {
  const fields = new Map<string, Tree>(tree instanceof Pairs ? tree.entries : [])
  const optionalText = (name: string): string | undefined => {
    const value = fields.get(name)
    return value === undefined || typeof value === 'string' ? value : ''
  }
  return {
    has: (name) => fields.has(name),
    optionalText,
    text: (name) => {
      const value = optionalText(name)
      if (value === undefined) throw new UnreadableRequest(`"${name}" is missing`)
      return value
    },
    flag: (name, byDefault) => {
      const value = optionalText(name)
      if (value === 'true' || value === '1') return true
      if (value === 'false' || value === '0') return false
      return byDefault
    },
    child: (name) => fields.get(name),
    texts: (name) => {
      const value = fields.get(name)
      if (value === undefined) throw new UnreadableRequest(`"${name}" is missing`)
      return childTexts(value)
    },
  }
}
