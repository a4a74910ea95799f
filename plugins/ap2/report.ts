// The fields of the record and the headers of the upstream about verified mandates.

import type { Call, MandateReport } from '@svc/core'
import { defined } from '@svc/core/json'
import type { HeaderNames } from './presented.js'
import type { VerifiedMandate } from './verify/verifier.js'

/** Hashes that the call asserts and no mandate of it proves. */
export type AssertedHashes = Readonly<Partial<Record<'checkout_hash' | 'open_checkout_hash', string>>>

interface VerifiedMandates {
  readonly verified: readonly VerifiedMandate[]
  readonly unsignedIntents: readonly string[]
  readonly asserted: AssertedHashes
}

export function verifiedReport(
  call: Call,
  { verified: mandates, unsignedIntents: intents, asserted }: VerifiedMandates,
  names: HeaderNames,
): MandateReport {
  const record = {
    verified: true,
    mandates: mandates.map(({ kind, shape, id, digest, issuer, subject, expiresAt }) => ({
      kind,
      shape,
      ...defined({ id }),
      digest,
      issuer,
      ...defined({ subject }),
      expires: new Date(expiresAt).toISOString(),
    })),
    ...(intents.length === 0 ? {} : { unsigned_intents: intents }),
    ...(Object.keys(asserted).length === 0 ? {} : { asserted }),
  }
  const presented = Object.values(names).flatMap((name) => {
    const value = call.headers[name]
    return typeof value === 'string' ? [[name, value] as const] : []
  })
  const headers = {
    ...Object.fromEntries(presented),
    'x-ap2-verified': 'true',
    'x-ap2-mandate-digest': mandates.map(({ digest }) => digest).join(','),
    'x-ap2-issuer': mandates.map(({ issuer }) => headerText(issuer)).join(','),
    ...optionalHeader(
      'x-ap2-mandate-id',
      mandates.map(({ id }) => id),
    ),
    ...optionalHeader(
      'x-ap2-subject',
      mandates.map(({ subject }) => subject),
    ),
  }
  return { record, headers, withheldMeta: [] }
}

/** Nothing of an unverified mandate goes upstream. @param reason absent if no mandate is valid. */
export function unverifiedReport(names: HeaderNames, reason?: string): MandateReport {
  const record = reason === undefined ? null : { verified: false, reason }
  return { record, headers: {}, withheldMeta: Object.values(names) }
}

/** One entry for each mandate, empty for a mandate without a value; no header if all are empty. */
function optionalHeader(name: string, values: readonly (string | undefined)[]): Record<string, string> {
  if (values.every((value) => value === undefined)) return {}
  return { [name]: values.map((value) => headerText(value ?? '')).join(',') }
}

/** Printable ASCII without a comma; other characters percent-encoded. */
function headerText(value: string): string {
  return encodeURI(value).replaceAll(',', '%2C')
}
