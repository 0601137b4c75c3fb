import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'

/** Whether an image is given by a tag with a version, or by a digest. */
export function isPinned(image: string): boolean {
  if (/@sha256:[0-9a-f]{64}$/.test(image)) return true
  const tag = /:([^:/]+)$/.exec(image)?.[1]
  return tag !== undefined && /\d+\.\d+/.test(tag)
}

const packageFile = z.object({ dependencies: z.object({ node: z.string() }) })

/**
 * What is wrong with the Dockerfile, a sentence each.
 *
 * @param users the users that Compose runs the image as
 */
export function findDockerfileProblems(
  input: { root: string; dockerfile: string; ignore: string },
  users: readonly string[],
): string[] {
  const lines = input.dockerfile
    .replace(/\\\n/g, ' ')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
  const argumentsOf = (instruction: string): string[][] =>
    lines.filter((line) => line.startsWith(`${instruction} `)).map((line) => line.split(/\s+/).slice(1))

  const { node } = packageFile.parse(
    JSON.parse(fs.readFileSync(path.join(input.root, 'package.json'), 'utf8')),
  ).dependencies
  const images = argumentsOf('FROM').map(([image = '']) => image)
  const problems = images.flatMap((image) => [
    ...(isPinned(image) ? [] : [`FROM ${image} must be pinned by a tag that names a version`]),
    ...(image.startsWith(`node:${node}-`)
      ? []
      : [`FROM ${image} must bring Node ${node}, which package.json pins`]),
  ])
  for (const words of argumentsOf('COPY')) {
    if (words.some((word) => word.startsWith('--from='))) continue
    for (const source of words.slice(0, -1)) {
      if (!fs.existsSync(path.join(input.root, source)))
        problems.push(`COPY ${source}: there is no such file`)
      else if (!isLetThrough(input.ignore, source))
        problems.push(`COPY ${source}: .dockerignore does not let it through`)
    }
  }
  const [user = 'root'] = argumentsOf('USER').at(-1) ?? []
  if (!/^[1-9]\d*:[1-9]\d*$/.test(user))
    problems.push(`USER ${user} must be uid:gid in numbers, and not root`)
  for (const other of new Set(users))
    if (other !== user)
      problems.push(`USER ${user} is not the user ${other} that docker-compose.yml runs it as`)
  return problems.map((problem) => `Dockerfile: ${problem}`)
}

/** Whether .dockerignore includes a file. Ours ignores everything (`*`) except lines that begin with `!`. */
function isLetThrough(ignore: string, source: string): boolean {
  const lines = ignore.split('\n').map((line) => line.trim())
  return !lines.includes('*') || lines.includes(`!${source}`)
}
