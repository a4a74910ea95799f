// Finds a secret that a policy contains in place of a reference, before the text is kept for others to read.
import { detectPii, isSecretName, personalDataKinds } from '../pii/index.js'
import type { PolicyNode } from './node.js'
import { pathOfMember } from './node.js'
import { parsePolicyText } from './yaml.js'

/** Finds the first one, such as `audit.presign.auditKey (line 12)`; undefined if none is found, and for text without YAML. */
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
