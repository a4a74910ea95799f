// The mandates of a call, parsed and put together: hops that came separately are joined, and contradictory mandates are
// refused.
import type { IncomingHttpHeaders } from 'node:http'
import {
  canonicalize,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  membersLike,
  sha256Hex,
} from '@svc/core/json'
import type { Ap2Config } from './config.js'
import { MandateError, malformed } from './mandate/error.js'
import { checkMembers, decodeBase64url, digestOf, parseJwt, parseStrictObject } from './mandate/jwt.js'
import { joinHops, parseChain } from './mandate/sd-jwt.js'
import type { SignedMandate } from './verify/signed-mandate.js'
import { mandateOfV01 } from './verify/v01-mandate.js'
import { ChainMandate, JwsMandate } from './verify/v02-mandate.js'

interface PresentedMandates {
  readonly signed: readonly SignedMandate[]
  /** SHA-256, hex, over RFC 8785, of each intent of v0.1, which is unsigned and so information only. */
  readonly unsignedIntents: readonly string[]
}

export async function parsePresented(values: Iterable<string | JsonObject>): Promise<PresentedMandates> {
  const signed = new Map<string, SignedMandate>()
  const unsignedIntents: string[] = []
  for (const value of values) {
    const mandate = await parseMandate(value)
    if (typeof mandate === 'string') unsignedIntents.push(mandate)
    else signed.set(mandate.identity, mandate)
  }
  return { signed: await joinChains([...signed.values()]), unsignedIntents }
}

async function joinChains(mandates: readonly SignedMandate[]): Promise<readonly SignedMandate[]> {
  const chains = mandates.filter((mandate) => mandate instanceof ChainMandate)
  const roots = chains.filter(({ isOpenRoot }) => isOpenRoot)
  const joined: SignedMandate[] = mandates.filter((mandate) => !(mandate instanceof ChainMandate))
  const used = new Set<ChainMandate>()
  for (const chain of chains) {
    if (chain.isOpenRoot) continue
    const root = roots.find((open) => isRootOf(open, chain))
    if (root !== undefined) used.add(root)
    if (root === undefined || !chain.isDetached) joined.push(chain)
    else joined.push(new ChainMandate(await parseChain(joinHops(root.hops[0], chain.hops[0]))))
  }
  const left = roots.filter((root) => !used.has(root))
  // An open mandate delegates to a key: only a chain that continues it proves possession of that key.
  if (left.length > 0 && joined.length > 0) {
    throw new MandateError('ap2_mandate_conflict', 'an open mandate is not that of a chain beside it')
  }
  return [...joined, ...left]
}

/** Whether the chain begins with this open mandate, or is the hop that follows it. */
function isRootOf({ hops: [open] }: ChainMandate, chain: ChainMandate): boolean {
  const [first] = chain.hops
  if (!chain.isDetached) return first.text === open.text
  const { sd_hash, issuer_jwt_hash } = first.jwt.payload
  if (sd_hash !== undefined) return sd_hash === digestOf(open.text, open.hash)
  return issuer_jwt_hash === digestOf(open.jwt.text, open.hash)
}

/** Maximum length of one mandate, in characters. */
const MAX_MANDATE = 64 * 1024

/** The mandate, or the digest of an intent. */
async function parseMandate(value: string | JsonObject): Promise<SignedMandate | string> {
  if (typeof value !== 'string') return parseObject(value)
  if (value.length > MAX_MANDATE) throw malformed(`a mandate has at most ${MAX_MANDATE} characters`)
  if (value.startsWith('{')) return parseObject(objectOf(value))
  if (value.includes('~')) return new ChainMandate(await parseChain(value))
  if (value.includes('.')) return new JwsMandate(parseJwt(value))
  return parseObject(objectOf(value))
}

/** The text of a JSON object, raw or in base64url. */
export function objectOf(text: string): JsonObject {
  const bytes = text.startsWith('{')
    ? Buffer.from(text)
    : decodeBase64url(text.replace(/=+$/, ''), 'the value')
  return parseStrictObject(bytes, 'the value')
}

function parseObject(object: JsonObject): SignedMandate | string {
  checkMembers(object, 'the mandate')
  return mandateOfV01(object) ?? sha256Hex(canonicalize(object))
}

export type HeaderNames = Ap2Config['headers']

/** A member of a bundle, whose name may end in `Mandate`. */
const memberName = /^(intent|cart|payment|checkout|openCheckout|openPayment)(?:Mandate)?$/

const MAX_BUNDLE = 4 * MAX_MANDATE

/** The mandates as given, by role; the same mandate given twice counts once. */
export function presentedValues(
  headers: IncomingHttpHeaders,
  meta: JsonObject | undefined,
  names: HeaderNames,
): ReadonlyMap<string, string | JsonObject> {
  const found = new Map<string, string | JsonObject>()
  const sources: ReadonlyArray<(name: string) => JsonValue | undefined> = [
    (name) => headers[name],
    (name) => inMeta(meta, name),
  ]
  for (const read of sources) {
    for (const role of ['intent', 'cart'] as const) {
      const value = read(names[role])
      if (value !== undefined) add(found, role, value)
    }
    const bundle = read(names.bundle)
    for (const [name, value] of bundle === undefined ? [] : Object.entries(bundleOf(bundle))) {
      const role = memberName.exec(name)?.[1]
      if (role === undefined) throw malformed('the bundle has a member that is not a mandate')
      add(found, role, value)
    }
  }
  return found
}

/**
 * @throws {MandateError} for a member that a program could read as the mandate, as unverified mandates are not
 * forwarded
 */
function inMeta(meta: JsonObject = {}, name: string): JsonValue | undefined {
  const [found, ...others] = membersLike(meta, name)
  if (found === undefined) return undefined
  if (found === name && others.length === 0) return meta[name]
  throw new MandateError(
    'ap2_mandate_conflict',
    `_meta has a member that differs from "${name}" only in case or form`,
  )
}

/** Whether an object is a bundle, and not a mandate of v0.1. */
export function isBundle(object: JsonObject): boolean {
  return Object.keys(object).some((name) => memberName.test(name))
}

function bundleOf(value: JsonValue): JsonObject {
  if (isJsonObject(value)) return value
  if (typeof value !== 'string' || value.length > MAX_BUNDLE) {
    throw malformed(`the bundle is not a JSON object of at most ${MAX_BUNDLE} characters`)
  }
  return objectOf(value.trim())
}

function add(found: Map<string, string | JsonObject>, role: string, value: JsonValue): void {
  if (typeof value !== 'string' && !isJsonObject(value))
    throw malformed('a mandate is neither text nor an object')
  const mandate = typeof value === 'string' ? value.trim() : value
  const before = found.get(role)
  if (before !== undefined && canonicalForm(before) !== canonicalForm(mandate)) {
    throw new MandateError('ap2_mandate_conflict', `two different mandates are given as ${role}`)
  }
  found.set(role, mandate)
}

/** The canonical text of an object that came as JSON, in base64url or in a bundle. */
function canonicalForm(value: string | JsonObject): string {
  if (typeof value !== 'string') return canonicalize(value)
  return /[.~]/.test(value) && !value.startsWith('{') ? value : canonicalize(objectOf(value))
}
