// Schemas of values that several sections of a policy have.

import { z } from 'zod'
import { isLoopbackHost } from '../http/host.js'
import { isUrl } from '../json/index.js'
import { compilePattern, PatternError } from '../match/pattern.js'

const keyReference = /^(?:env:|file:\/\/|command:)./

/** Whether the text has the form of a key reference. */
export function isKeyReference(text: string): boolean {
  return keyReference.test(text)
}

export const keyRefSchema = z
  .string()
  .regex(keyReference, 'not a key reference; accepted are env:NAME, file://PATH and command:NAME')

export const headerNameSchema = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'not a header name (RFC 9110 §5.1)')

export const httpUrlSchema = z.url({ protocol: /^https?$/, error: 'must be an http or https URL' })

/** The schemas whose values, or whose keys, are patterns over references. */
const patternKinds = z.registry<{ readonly kind: 'pattern' | 'keys' }>()

/** Undefined for the schema of other values. One that is described anew is of the same kind. */
export function patternKind(schema: z.core.$ZodType): 'pattern' | 'keys' | undefined {
  return patternKinds.get(schema)?.kind
}

/** A pattern over references. */
export const patternSchema = z
  .string()
  .superRefine((source, context) => checkPattern(source, [], context))
  .register(patternKinds, { kind: 'pattern' })

/** A map from patterns to values. */
export function patternsSchema<T extends z.ZodType>(value: T) {
  return z
    .record(z.string(), value)
    .superRefine((entries, context) => {
      for (const source of Object.keys(entries)) checkPattern(source, [source], context)
    })
    .register(patternKinds, { kind: 'keys' })
}

function checkPattern(source: string, path: string[], context: z.core.$RefinementCtx): void {
  try {
    compilePattern(source)
  } catch (error) {
    if (!(error instanceof PatternError)) throw error
    context.addIssue({ code: 'custom', path, message: error.message })
  }
}

interface SecureUrlRule {
  /** Why plain http is not accepted, as a clause such as `because …`. */
  readonly because?: string
  /** The key that accepts plain http to every host. */
  readonly insecureKey?: string
  readonly isInsecureAllowed?: boolean | undefined
}

/** Why an http or https URL must not be used for secrets or decisions; undefined if it may, and for other text. */
export function secureUrlError(
  text: string | undefined,
  { because, insecureKey, isInsecureAllowed = false }: SecureUrlRule = {},
): string | undefined {
  if (text === undefined || !isUrl(text)) return undefined
  const { username, password, protocol, hostname } = new URL(text)
  if (username !== '' || password !== '') return 'must not contain a user or a password'
  if (protocol !== 'http:' || isInsecureAllowed || isLoopbackHost(hostname)) return undefined
  const why = because === undefined ? '' : `, ${because}`
  const otherwise = insecureKey === undefined ? '' : `, or with ${insecureKey}: true`
  return `must be https${why} (http is accepted on a loopback address${otherwise})`
}
