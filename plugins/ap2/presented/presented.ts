// The mandates of a call, parsed and put together: hops that came apart are joined, and none contradicts another.
import type { JsonObject } from '@svc/core/json'
import { MandateFault } from '../mandate/fault.js'
import { digestOf } from '../mandate/hash.js'
import { joinHops, parseChain } from '../mandate/sd-jwt.js'
import { ChainMandate } from '../verify/chain-mandate.js'
import type { SignedMandate } from '../verify/signed-mandate.js'
import { parseMandate, type UnsignedIntent } from './parse.js'

interface PresentedMandates {
  readonly signed: readonly SignedMandate[]
  readonly unsigned: readonly UnsignedIntent[]
}

export async function parsePresented(values: Iterable<string | JsonObject>): Promise<PresentedMandates> {
  const signed = new Map<string, SignedMandate>()
  const unsigned: UnsignedIntent[] = []
  for (const value of values) {
    const mandate = await parseMandate(value)
    if (mandate.shape === 'unsigned') unsigned.push(mandate)
    else signed.set(mandate.identity, mandate)
  }
  return { signed: await joinChains([...signed.values()]), unsigned }
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
  // An open mandate delegates to a key: only a chain that continues it shows the use of that key.
  if (left.length > 0 && joined.length > 0) {
    throw new MandateFault('ap2_mandate_conflict', 'an open mandate is not that of a chain beside it')
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
