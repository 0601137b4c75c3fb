import type { RequestHandler } from 'express'

/**
 * Serves a path by its segments, since the router would try the pattern of each path in turn. What isn't in
 * the tree, it leaves to the router: other methods, escapes, a trailing slash, parameters with slashes.
 */
export interface RouteTree {
  /** @param path with a parameter as `{name}` */
  add(method: string, path: string, serve: RequestHandler): void
  serve: RequestHandler
}

interface Node {
  literals: Map<string, Node>
  parameter?: Node
  /** By method. */
  routes: Map<string, { path: string; names: readonly string[]; serve: RequestHandler }>
}

/** Whether a target is a path without escapes. Other targets, such as `*`, are left to the router. */
const isPlain = (path: string): boolean => path.startsWith('/') && !path.includes('%')

const newNode = (): Node => ({ literals: new Map(), routes: new Map() })

/** Creates an empty tree. */
export function createRouteTree(): RouteTree {
  const root = newNode()

  /** Returns the node of a route's path, with `{name}` for a parameter; makes the nodes that it lacks. */
  function nodeAt(path: string): Node {
    let node = root
    for (const segment of path.slice(1).split('/')) {
      const isParameter = segment.startsWith('{')
      const known = isParameter ? node.parameter : node.literals.get(segment)
      const below = known ?? newNode()
      if (isParameter) node.parameter = below
      else node.literals.set(segment, below)
      node = below
    }
    return node
  }

  /**
   * Finds the node of a path as it was sent, and the values of its parameters; undefined if no route has this
   * path.
   */
  function find(path: string): { node: Node; values: string[] } | undefined {
    const values: string[] = []
    let node = root
    for (const segment of path.slice(1).split('/')) {
      let below = node.literals.get(segment)
      if (below === undefined && segment !== '') {
        below = node.parameter
        values.push(segment)
      }
      if (below === undefined) return undefined
      node = below
    }
    return { node, values }
  }

  return {
    add(method, path, serve) {
      const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
      nodeAt(path).routes.set(method, { path, names, serve })
    },
    serve(req, res, next) {
      const found = isPlain(req.path) ? find(req.path) : undefined
      const route = found?.node.routes.get(req.method)
      if (found === undefined || route === undefined) return next()
      // As the router would set them; the metrics read the first.
      req.route = { path: route.path }
      req.params = Object.fromEntries(route.names.map((name, index) => [name, found.values[index] ?? '']))
      return route.serve(req, res, next)
    },
  }
}

/**
 * Makes one handler of several that run one after the other, which costs the router's work for a layer once.
 */
export function inOneLayer(...handlers: readonly RequestHandler[]): RequestHandler {
  const [first, ...rest] = handlers
  if (first === undefined) return (_req, _res, next) => next()
  const others = inOneLayer(...rest)
  return (req, res, leave) =>
    first(req, res, (error?: unknown) => {
      if (error !== undefined) return leave(error)
      const given = others(req, res, leave)
      // A promise that the router doesn't get to see.
      if (given instanceof Promise) given.catch(leave)
    })
}
