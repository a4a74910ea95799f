// Refuses calls that an operator has blocked or whose tool is turned off, whatever the policy says of them, in observe
// mode too.
import {
  after,
  type Call,
  type Denial,
  type Denied,
  denied,
  type Finding,
  type MaybePromise,
  type Outcome,
  type ReferenceRule,
  type Stage,
  token,
} from '@svc/core'
import { type Block, BlockList, blockedMessage } from './block.js'

const STAGE = 'blocks'
const nothing = new BlockList([])
const unknown = denied('STORE_UNAVAILABLE', 'What operators have blocked is not known yet; ask again later.')

/** The stage reads the list of blocks from it for every call. */
export interface BlockSource {
  /** The list in force; undefined if it has not been read yet. */
  current(): BlockList | undefined
  /** Why it has not been read. */
  reason?(): string
}

/** The blocks of the gateway; without a binding nothing is blocked. */
export const blockSource = token<BlockSource>('blocks/BlockSource')

export function blockStage(source: BlockSource): Stage {
  const list = () => source.current() ?? nothing
  // Lists do not show a blocked tool.
  const rule: ReferenceRule = (reference, kind) => findingOf(list().findReference([reference], kind))
  const judge = (call: Call, known: BlockList): MaybePromise<Block | undefined> =>
    known.needsRequest ? after(call.request(), () => list().find(call)) : known.find(call)
  const unread = () => `what operators have blocked could not be read yet: ${source.reason?.() ?? ''}`
  return {
    effects: 'none',
    health: () => (source.current() === undefined ? { state: 'down', reason: unread() } : undefined),
    handle(call, next): MaybePromise<Outcome> {
      const known = source.current()
      if (known === undefined) {
        call.note(unread())
        return unknown
      }
      call.addReferenceRule(rule)
      if (known.blocks.length === 0) return next()
      return after(judge(call, known), (block) => {
        if (block === undefined) return next()
        if (call.isNoted) call.note(`${describeBlock(block)}, by ${block.by}: ${block.reason}`)
        return refusalOf(block)
      })
    },
  }
}

/** Stops a call in progress that the list refuses. */
export function stopIfBlocked(call: Call, list: BlockList): void {
  const block = list.find(call)
  if (block !== undefined) call.abort('TOOL_NOT_ALLOWED', blockedMessage(block), denialOf(block))
}

function refusalOf(block: Block): Denied {
  return denied('TOOL_NOT_ALLOWED', blockedMessage(block), { denial: denialOf(block) })
}

function denialOf(block: Block): Denial {
  return { level: 'gateway', type: STAGE, reason: reasonOf(block) }
}

function findingOf(block: Block | undefined): Finding | undefined {
  if (block === undefined) return undefined
  return {
    reason: reasonOf(block),
    stage: STAGE,
    level: 'gateway',
    ruling: 'block',
    detail: blockedMessage(block),
  }
}

function reasonOf({ id }: Block): string {
  return `blocked:${id}`
}

/** `tool billing/* is blocked until 2026-06-15T11:00:00.000Z (3f2a9c1d04be)`. */
function describeBlock({ kind, pattern, until, id }: Block): string {
  return `${kind} ${pattern} is blocked until ${until ?? 'an operator lifts it'} (${id})`
}
