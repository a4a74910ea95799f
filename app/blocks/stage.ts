// Refuses calls that an operator has blocked, whatever the policy says of them, in observe mode too.
import {
  after,
  type Call,
  type Denied,
  denied,
  type Finding,
  type MaybePromise,
  type Outcome,
  type Stage,
} from '@svc/core'
import type { Block, BlockList } from './block.js'

const STAGE = 'blocks'

/** `current` returns the list in force. */
export function blockStage(current: () => BlockList): Stage {
  return {
    handle(call, next): MaybePromise<Outcome> {
      // Lists show no blocked tool.
      call.addReferenceRule((reference, kind) => findingOf(current().findReference([reference], kind)))
      const find = () => current().find(call)
      const found = current().needsRequest ? after(call.request(), find) : find()
      return after(found, (block) => {
        if (block !== undefined) return refusalOf(block)
        return after(next(), (outcome) => {
          // One that was stopped by a block while it waited.
          const later = outcome.kind !== 'completed' && call.sent === 'no' ? find() : undefined
          return later === undefined ? outcome : refusalOf(later)
        })
      })
    },
  }
}

/** Stops a call in progress that the list refuses. */
export function stopIfBlocked(call: Call, list: BlockList): void {
  const block = list.find(call)
  if (block !== undefined) call.abort('TOOL_NOT_ALLOWED', messageOf(block))
}

function refusalOf(block: Block): Denied {
  return denied('TOOL_NOT_ALLOWED', messageOf(block), {
    denial: { level: 'gateway', type: STAGE, reason: reasonOf(block) },
  })
}

function findingOf(block: Block | undefined): Finding | undefined {
  if (block === undefined) return undefined
  return { reason: reasonOf(block), stage: STAGE, level: 'gateway', ruling: 'deny', detail: messageOf(block) }
}

function reasonOf({ id }: Block): string {
  return `blocked:${id}`
}

/** The operator's reason is not for the caller. */
function messageOf({ until, id }: Block): string {
  return `Blocked by an operator until ${until} (${id}).`
}
