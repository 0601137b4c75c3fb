import fs from 'node:fs'
import path from 'node:path'
import { z } from 'zod'

/** Whether an image's name ends in a digest, or in a tag with a version of at least two numbers. */
export function isPinned(image: string): boolean {
  if (/@sha256:[0-9a-f]{64}$/.test(image)) return true
  const tag = /:([^:/]+)$/.exec(image)?.[1]
  return tag !== undefined && /\d+\.\d+/.test(tag)
}

const packageFile = z.object({ dependencies: z.object({ node: z.string() }) })

/**
 * Checks the Dockerfile: pinned images with our Node, files to copy that exist, a user that is not root.
 *
 * @param users the users that Compose runs the image as
 * @returns a sentence for each problem
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
  /** The words after the instruction, for each of its lines. */
  const argumentsOf = (instruction: string): string[][] =>
    lines.filter((line) => line.startsWith(`${instruction} `)).map((line) => line.split(/\s+/).slice(1))

  const { node } = packageFile.parse(
    JSON.parse(fs.readFileSync(path.join(input.root, 'package.json'), 'utf8')),
  ).dependencies
  const images = argumentsOf('FROM').map(([image = '']) => image)
  const problems: string[] = []
  for (const image of images) {
    if (!isPinned(image)) problems.push(`FROM ${image} must be pinned by a tag that names a version`)
    if (!image.startsWith(`node:${node}-`))
      problems.push(`FROM ${image} must bring Node ${node}, which package.json pins`)
  }
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

/**
 * Whether the build gets a file. Our .dockerignore leaves out everything (`*`) except lines that begin with
 * `!`.
 */
function isLetThrough(ignore: string, source: string): boolean {
  const lines = ignore.split('\n').map((line) => line.trim())
  return !lines.includes('*') || lines.includes(`!${source}`)
}
