// The mandates of a call, parsed and put together: hops that came separately are joined, and contradictory mandates are
// refused. Loaded with the first mandate.
import { canonicalize, type JsonObject, sha256Hex } from '@svc/core/json'
import { MandateError, malformed } from './mandate/error.js'
import { checkMembers, digestOf, parseJwt } from './mandate/jwt.js'
import { joinHops, parseChain } from './mandate/sd-jwt.js'
import { MAX_MANDATE, objectOf } from './presented.js'
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

/** The mandate, or the digest of an intent. */
async function parseMandate(value: string | JsonObject): Promise<SignedMandate | string> {
  if (typeof value !== 'string') return parseObject(value)
  if (value.length > MAX_MANDATE) throw malformed(`a mandate has at most ${MAX_MANDATE} characters`)
  if (value.startsWith('{')) return parseObject(objectOf(value))
  if (value.includes('~')) return new ChainMandate(await parseChain(value))
  if (value.includes('.')) return new JwsMandate(parseJwt(value))
  return parseObject(objectOf(value))
}

function parseObject(object: JsonObject): SignedMandate | string {
  checkMembers(object, 'the mandate')
  return mandateOfV01(object) ?? sha256Hex(canonicalize(object))
}
