// Reads mandates as a call would present them, and reports which checks they pass, for `svc ap2 inspect`.
import type { Clock } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import { type DidMethod, didJwk, didKey, didOfUrl } from './keys/did-method.js'
import { IssuerKeys } from './keys/issuer-keys.js'
import { MandateError } from './mandate/error.js'
import { parsePresented } from './parse-mandates.js'
import { isBundle, objectOf, presentedValues } from './presented.js'
import type { SignedMandate } from './verify/signed-mandate.js'
import { ChainMandate } from './verify/v02-mandate.js'
import { type CheckName, checks, MandateVerifier } from './verify/verifier.js'

export interface InspectOptions {
  readonly clock: Clock
  readonly skewSec: number
  /** Accepted audiences; absent: each mandate's own. */
  readonly audiences?: readonly string[]
  /** Accepted issuers; absent: each mandate's own. */
  readonly issuers?: readonly string[]
  /** Methods beside `did:key` and `did:jwk`. */
  readonly methods?: Readonly<Record<string, DidMethod>>
}

interface InspectedMandate {
  readonly shape: string
  /** Each token with its disclosed mandate, the issuer's first. */
  readonly tokens: readonly {
    readonly alg: string
    readonly payload: JsonObject
    readonly mandate?: JsonObject
  }[]
  readonly checks: readonly { readonly name: CheckName; readonly result: string }[]
}

export interface Inspection {
  readonly mandates: readonly InspectedMandate[]
  /** SHA-256 of unsigned intents. */
  readonly unsignedIntents: readonly string[]
  readonly error?: { readonly reason: string; readonly detail: string }
}

/** `text` is a mandate or a bundle, as a header would have it. */
export async function inspectMandates(text: string, options: InspectOptions): Promise<Inspection> {
  try {
    const { signed, unsignedIntents } = await parsePresented(valuesOf(text.trim()))
    const passed = new Map<SignedMandate, Set<CheckName>>(signed.map((mandate) => [mandate, new Set()]))
    const error = await errorOf(signed, options, (mandate, check) => passed.get(mandate)?.add(check))
    // Mandates are checked one after another, and their constraints when all others have passed.
    const failed = signed.find((mandate) => (passed.get(mandate)?.size ?? 0) < checks.length - 1) ?? signed[0]
    const mandates = signed.map((mandate) => {
      const done = passed.get(mandate) ?? new Set()
      const first = mandate === failed ? checks.find((name) => !done.has(name)) : undefined
      const resultOf = (name: CheckName) =>
        done.has(name) ? 'ok' : name === first ? 'failed' : 'not reached'
      return {
        shape: mandate.shape,
        tokens: tokensOf(mandate),
        checks: checks.map((name) => ({ name, result: resultOf(name) })),
      }
    })
    return { mandates, unsignedIntents, ...(error === undefined ? {} : { error: errorReport(error) }) }
  } catch (error) {
    if (!(error instanceof MandateError)) throw error
    return { mandates: [], unsignedIntents: [], error: errorReport(error) }
  }
}

async function errorOf(
  signed: readonly SignedMandate[],
  { clock, skewSec, audiences, issuers, methods }: InspectOptions,
  onCheck: (mandate: SignedMandate, check: CheckName) => void,
): Promise<MandateError | undefined> {
  const keys = new IssuerKeys({
    allowed: new Set(issuers ?? signed.flatMap(ownIssuers)),
    didMethods: undefined,
    pinned: new Map(),
    methods: { key: didKey, jwk: didJwk, ...methods },
  })
  const verifier = new MandateVerifier(
    { algorithms: new Set(['ES256', 'ES384', 'EdDSA']), skewSec, role: 'merchant' },
    keys,
    clock,
  )
  try {
    await verifier.verify(signed, { audiences: new Set(audiences ?? signed.flatMap(ownAudiences)) }, onCheck)
    return undefined
  } catch (error) {
    if (error instanceof MandateError) return error
    throw error
  }
}

function valuesOf(text: string): Iterable<string | JsonObject> {
  if (/[.~]/.test(text) && !text.startsWith('{')) return [text]
  const object = objectOf(text)
  if (!isBundle(object)) return [object]
  return presentedValues(
    {},
    { bundle: object },
    { intent: 'intent', cart: 'cart', bundle: 'bundle' },
  ).values()
}

function ownIssuers({ issued: { payload, kid } }: SignedMandate): string[] {
  const { iss } = payload
  const issuer = typeof iss === 'string' ? iss : kid === undefined ? undefined : didOfUrl(kid)
  return issuer === undefined ? [] : [issuer]
}

function ownAudiences({ audiences }: SignedMandate): string[] {
  return audiences.flat().filter((audience) => typeof audience === 'string')
}

function tokensOf(mandate: SignedMandate): InspectedMandate['tokens'] {
  if (mandate instanceof ChainMandate) {
    return mandate.hops.map(({ jwt, mandate: disclosed }) => ({
      alg: jwt.alg,
      payload: jwt.payload,
      mandate: disclosed,
    }))
  }
  return mandate.tokens.map(({ alg, payload }) => ({ alg, payload }))
}

function errorReport({ reason, message }: MandateError): { reason: string; detail: string } {
  return { reason, detail: message }
}
