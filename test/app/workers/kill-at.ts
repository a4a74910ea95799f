// Loaded into each worker before all else (`--import`): kills it with SIGKILL at one exact file operation below a directory,
// before or after it. The file named by SVC_TEST_KILL says which; without one, what happens is noted in `<that file>.seen`.
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { relative } from 'node:path'

/** An operation, and what its path is with all numbers, also in hexadecimal, as `#`. */
export interface KillPoint {
  readonly phase: string
  readonly operation: string
  readonly path: string
}

export interface KillOrder {
  readonly phase: string
  readonly at?: KillPoint & { readonly when: 'before' | 'after' }
}

const { readFileSync, appendFileSync, rmSync } = fs
const file = process.env['SVC_TEST_KILL'] ?? ''
const dir = process.env['SVC_TEST_DIR'] ?? ''
const opened = new Map<number, string>()
const seen = new Set<string>()

function order(): KillOrder | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as KillOrder
  } catch {
    // None, or one that is being written.
    return undefined
  }
}

function pass(operation: string, path: string, when: 'before' | 'after'): void {
  const { phase, at } = order() ?? {}
  if (phase === undefined) return
  if (at?.phase === phase && at.operation === operation && at.path === path && at.when === when) {
    rmSync(file)
    process.kill(process.pid, 'SIGKILL')
  }
  const line = `${JSON.stringify({ phase, operation, path })}\n`
  if (!seen.has(line)) appendFileSync(`${file}.seen`, line)
  seen.add(line)
}

function classOf(path: unknown): string | undefined {
  const inside = relative(dir, String(path))
  if (inside.startsWith('..') || /\.mdb$/.test(inside)) return undefined
  return inside.replaceAll(/\b[0-9a-f]*\d[0-9a-f]*\b/g, '#')
}

type AnyFunction = (...args: unknown[]) => unknown

function wrap(operation: string, pathOf: (args: unknown[]) => string | undefined): void {
  const all = fs as unknown as Record<string, AnyFunction>
  const original = all[operation] as AnyFunction
  all[operation] = (...args: unknown[]) => {
    const path = pathOf(args)
    if (path === undefined) return original(...args)
    pass(operation, path, 'before')
    const done = args.at(-1)
    if (typeof done === 'function') {
      args[args.length - 1] = (...results: unknown[]) => {
        pass(operation, path, 'after')
        return (done as AnyFunction)(...results)
      }
      return original(...args)
    }
    const result = original(...args)
    if (operation === 'openSync') opened.set(Number(result), path)
    pass(operation, path, 'after')
    return result
  }
}

if (/^worker \d+$/.test(process.argv[2] ?? '')) {
  const first = (args: unknown[]): string | undefined => classOf(args[0])
  const ofHandle = ([fd]: unknown[]): string | undefined => opened.get(Number(fd))
  for (const operation of ['openSync', 'renameSync', 'rmSync']) wrap(operation, first)
  for (const operation of ['writeSync', 'ftruncateSync', 'fsyncSync', 'fdatasync', 'fsync'])
    wrap(operation, ofHandle)
  syncBuiltinESMExports()
}
