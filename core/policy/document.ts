// Reads a YAML file that belongs to a policy with the checks of a policy, locates its values, and finds secrets in them.
import type { z } from 'zod'
import { detectPii, isSecretName, personalDataKinds } from '../pii/index.js'
import type { Origin } from './diagnostic.js'
import { childOf, type Env, type Located, type PolicyNode, pathOfMember } from './node.js'
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

/**
 * Finds the first secret that a policy contains in place of a reference, such as `audit.presign.auditKey (line 12)`; undefined if none is found, and for text without YAML.
 */
export function literalSecret(text: string): string | undefined {
  const { root } = parsePolicyText(text, '')
  return root === undefined ? undefined : secretIn(root, '', '')
}

function secretIn(node: PolicyNode, path: string, name: string): string | undefined {
  if (node.kind === 'scalar') {
    if (typeof node.value !== 'string' || !isSecret(name, node.value)) return undefined
    const { line } = node.origin
    return line === undefined ? path : `${path} (line ${line})`
  }
  const children: readonly (readonly [PolicyNode, string, string])[] =
    node.kind === 'list'
      ? node.items.map((item, index) => [item, `${path}[${index}]`, name])
      : node.entries.map(({ key, node: value }) => [value, pathOfMember(path, key), key])
  for (const [child, at, key] of children) {
    const found = secretIn(child, at, key)
    if (found !== undefined) return found
  }
  return undefined
}

const personal: ReadonlySet<string> = new Set(personalDataKinds)
/** References, and addresses such as `token_endpoint`, whose secrets have a form of their own. */
const reference = /^(?:env|file|command|https?):|\$\{env:/

function isSecret(name: string, value: string): boolean {
  // Names within a text are its author's words, such as those of a condition.
  if (detectPii(value).some(({ kind }) => kind !== 'secret' && !personal.has(kind))) return true
  return value !== '' && isSecretName(name) && !reference.test(value)
}
