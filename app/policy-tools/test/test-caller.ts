// The caller of a tested call: claims, a token, or a caller that a program vouches for.
import { type JsonObject, parseJsonObject } from '@svc/core/json'
import type { CallerIdentity } from '../../in-process/tool-call.js'

export type TestCaller =
  /** Claims that are not whole are completed by the policy: issuer, audience, expiry. */
  { readonly claims: JsonObject; readonly isWhole: boolean } | { readonly identity: CallerIdentity }

/** `given` is as the schema of the file has it. Undefined for a text that is not a token. */
export function testCallerOf(given: string | Readonly<Record<string, unknown>>): TestCaller | undefined {
  if (typeof given === 'string') {
    const claims = claimsIn(given)
    return claims === undefined ? undefined : { claims, isWhole: true }
  }
  const { identity, ...others } = given
  if (identity !== undefined && Object.keys(others).length === 0)
    return { identity: identity as CallerIdentity }
  return { claims: given as JsonObject, isWhole: false }
}

/** The claims of a JWT; undefined for any other text. */
function claimsIn(token: string): JsonObject | undefined {
  const [, payload, signature, ...more] = token.replace(/^Bearer /i, '').split('.')
  if (payload === undefined || signature === undefined || more.length > 0) return undefined
  return parseJsonObject(Buffer.from(payload, 'base64url').toString()) as JsonObject | undefined
}
