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

function fieldsOf(fields: Fields): readonly [string, Tree][] {
  return fields instanceof Pairs ? fields.entries : Object.entries(fields)
}

/** The request can't be read: malformed JSON, or a field that must be there is missing. */
export class UnreadableRequest extends Error {}

function formatText(text: string): string {
  return JSON.stringify(text).replaceAll('/', '\\/')
}

function formatNode(node: Tree, indent: string): string {
  if (typeof node === 'string') return formatText(node)
  const inner = `${indent}    `
  if (Array.isArray(node)) {
    const list: readonly Tree[] = node
    return list.length === 0
      ? '""'
      : `[\n${list.map((item) => inner + formatNode(item, inner)).join(',\n')}\n${indent}]`
  }
  const entries = fieldsOf(node as Fields)
  if (entries.length === 0) return '""'
  return `{\n${entries.map(([key, value]) => `${inner}${formatText(key)}: ${formatNode(value, inner)}`).join(',\n')}\n${indent}}`
}

/** JSON as the node writes it: 4 blanks a level, empty lists and objects as "", a newline at the end. */
export function formatTree(tree: Tree): string {
  return `${formatNode(tree, '')}\n`
}

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
 * Parses JSON; numbers and booleans become texts.
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

export interface TreeReader {
  has(name: string): boolean
  /** @throws UnreadableRequest if the field is missing */
  text(name: string): string
  optionalText(name: string): string | undefined
  /** "true", "false", "1", "0"; anything else is the default. */
  flag(name: string, byDefault: boolean): boolean
  child(name: string): Tree | undefined
  /**
   * The texts of a list; a text in place of a list gives none.
   *
   * @throws UnreadableRequest if the field is missing
   */
  texts(name: string): string[]
}

/** The children of a list or of fields, those that are not texts as empty texts. */
export function childTexts(tree: Tree): string[] {
  const children =
    typeof tree === 'string'
      ? []
      : Array.isArray(tree)
        ? (tree as readonly Tree[])
        : fieldsOf(tree as Fields).map(([, value]) => value)
  return children.map((child) => (typeof child === 'string' ? child : ''))
}

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
