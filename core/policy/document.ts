// Reads a YAML file that belongs to a policy with the checks of a policy, and locates its values.
import type { z } from 'zod'
import type { Origin } from './diagnostic.js'
import { childOf, type Env, type Located, type PolicyNode } from './node.js'
import type { Diagnostic } from './types.js'
import { validate } from './validate.js'
import { parsePolicyText } from './yaml.js'

/** The position of the value at a path, in any spelling of its keys; of a missing value, that of its nearest parent. */
export type Locate = (path: readonly (string | number)[]) => Located

interface ReadDocument<T> {
  /** Undefined if there are mistakes. */
  readonly value: T | undefined
  readonly mistakes: readonly Diagnostic[]
  readonly locate: Locate
}

/** Never throws for any text. */
export function readDocument<T>(text: string, file: string, schema: z.ZodType<T>, env: Env): ReadDocument<T> {
  const { root, mistakes } = parsePolicyText(text, file)
  const locate = locateIn(root, { file })
  if (root === undefined) return { value: undefined, mistakes, locate }
  const { value, mistakes: found } = validate(root, schema, { origin: root.origin, path: '' }, env)
  const all = [...mistakes, ...found]
  return { value: all.length === 0 ? value : undefined, mistakes: all, locate }
}

/** Whether the text is one whole document with keys; half of a policy may be. */
export function isPolicyText(text: string): boolean {
  const { root, mistakes } = parsePolicyText(text, '')
  return mistakes.length === 0 && root?.kind === 'map' && root.entries.length > 0
}

/** Locates the values of a policy's text. */
export function locateInText(text: string, file: string): Locate {
  return locateIn(parsePolicyText(text, file).root, { file })
}

/** The value of a policy's text, unchecked and without substitutions; undefined for a text that cannot be read. */
export function policyValue(text: string): unknown {
  const { root } = parsePolicyText(text, '')
  return root === undefined ? undefined : plainValue(root)
}

function plainValue(node: PolicyNode): unknown {
  if (node.kind === 'list') return node.items.map(plainValue)
  if (node.kind === 'map')
    return Object.fromEntries(node.entries.map(({ key, node: value }) => [key, plainValue(value)]))
  return node.value
}

function locateIn(node: PolicyNode | undefined, fallback: Origin): Locate {
  const start: Located = { origin: node?.origin ?? fallback, path: '', node }
  return (path) => path.reduce(childOf, start)
}
