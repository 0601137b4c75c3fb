/**
 * A plugin of StrykerJS: leaves text for people as it is. A literal with a space in it is a message or a
 * description; a test that noticed a change of it would quote it.
 */
interface SyntaxPath {
  node: {
    type: string
    value?: unknown
    quasis?: readonly { value: { raw: string } }[]
  }
}

function isProse({ node }: SyntaxPath): boolean {
  if (node.type === 'StringLiteral') return typeof node.value === 'string' && node.value.includes(' ')
  return node.type === 'TemplateLiteral' && (node.quasis ?? []).some(({ value }) => value.raw.includes(' '))
}

export const strykerPlugins = [
  {
    kind: 'Ignore',
    name: 'prose',
    value: {
      shouldIgnore: (path: SyntaxPath): string | undefined => (isProse(path) ? 'text for people' : undefined),
    },
  },
]
