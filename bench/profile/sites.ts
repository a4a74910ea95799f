// The functions that weigh most by themselves.
import type { Frame } from './frames.js'

export interface Site {
  readonly name: string
  readonly file: string
  readonly weight: number
}

/** The largest first. What the engine's own functions weigh counts for their callers. */
export function largestSites(root: Frame, count: number): readonly Site[] {
  const sites = new Map<string, Site>()
  const add = (frame: Frame, caller: Frame): void => {
    const { name, url } = frame.url === '' ? caller : frame
    const key = `${name} ${url}`
    const weight = (sites.get(key)?.weight ?? 0) + frame.weight
    sites.set(key, { name, file: fileOf(url), weight })
    for (const callee of frame.callees) add(callee, frame.url === '' ? caller : frame)
  }
  add(root, root)
  return [...sites.values()].sort((a, b) => b.weight - a.weight).slice(0, count)
}

/** The name of the function as a reader of the repository knows it. */
export function fileOf(url: string): string {
  const [, path] = /\/((?:plugins\/\w+|core|app|bench)\/dist\/.*)$/.exec(url) ?? []
  return path?.replace('/dist/', '/').replace(/\.js$/, '.ts') ?? url.replace(/^.*\/node_modules\//, '')
}
