// The questions to the person at the client about a call that was not sent, and the requests by which a client asks them.
import type { Call, Outcome } from '@svc/core'
import { isJsonObject, type JsonObject, type JsonValue, visibleInLine } from '@svc/core/json'
import type { ClientExchange } from '../http/client-exchange.js'
import { type Confirmation, mcpExchange, modesOf } from './exchange.js'
import type { Fields } from './rpc-response.js'

/** An escalation, which reviewers decide on its page, or a form for the person at the client. */
export type Elicitation =
  | {
      readonly kind: 'approval'
      readonly escalationId: string
      readonly message: string
      readonly url: string
    }
  | { readonly kind: 'confirmation'; readonly sha256: string; readonly message: string }

/** The client of a held call. */
export interface AskedClient {
  /** Names the client in its session, which alone may respond. */
  readonly name: string
  readonly exchange: ClientExchange
  readonly progressToken: JsonValue | undefined
  /** Fires when the client cancels its request. */
  readonly cancelled: AbortSignal
  /** Ends the wait for a cancellation. */
  release?(): void
}

/** Undefined if nobody at the client can be asked. `pageOf` has the pages of escalations. */
export function elicitationOf(
  call: Call,
  outcome: Outcome,
  pageOf: ((escalationId: string) => string | undefined) | undefined,
): Elicitation | undefined {
  if (outcome.kind !== 'denied') return undefined
  const { code, confirmation, escalation } = outcome
  const exchange = call.get(mcpExchange)
  if (exchange === undefined) return undefined
  if (confirmation !== undefined) {
    return modesOf(exchange).form ? { kind: 'confirmation', ...confirmation } : undefined
  }
  if (code !== 'ESCALATION_PENDING' || escalation?.status !== 'pending' || !modesOf(exchange).url) {
    return undefined
  }
  const url = pageOf?.(escalation.id)
  if (url === undefined) return undefined
  return { kind: 'approval', escalationId: escalation.id, message: approvalMessage(call), url }
}

/** The text for the person at the client, whose consent is not an approval. */
function approvalMessage(call: Call): string {
  const { server, name } = call.parsedRequest ?? { server: '', name: '' }
  const reasons = call
    .judgedFindings()
    .flatMap(({ effect, reason, detail }) => (effect === 'escalate' ? (detail ?? reason) : []))
  return visibleInLine(
    `${server}/${name} waits for an approval: ${reasons.join('; ')}. The page shows its state; to open it approves nothing.`,
  )
}

/** The params of `elicitation/create`. From 2026-07-28 on an elicitation has no id. */
export function elicitationParams(elicitation: Elicitation, isStateless: boolean): JsonObject {
  const { message } = elicitation
  if (elicitation.kind === 'approval') {
    const { url, escalationId } = elicitation
    return { mode: 'url', message, url, ...(isStateless ? {} : { elicitationId: escalationId }) }
  }
  return { mode: 'form', message, requestedSchema: confirmationSchema }
}

/** A client that fills in defaults by itself does not confirm. */
const confirmationSchema: JsonObject = {
  type: 'object',
  properties: { confirm: { type: 'boolean', title: 'Yes, do this', default: false } },
  required: ['confirm'],
}

type Action = Confirmation['action']

/** The action of a client's result; `cancel` for one that is not a valid result. */
export function actionOf(result: unknown): Exclude<Action, 'none'> {
  const { action } = fieldsOf(result)
  return action === 'accept' || action === 'decline' ? action : 'cancel'
}

/** The action of a confirmation: to accept a form without its tick is to decline. */
export function confirmationOf(result: unknown): Exclude<Action, 'none'> {
  const action = actionOf(result)
  if (action !== 'accept') return action
  return fieldsOf(fieldsOf(result)['content'])['confirm'] === true ? 'accept' : 'decline'
}

function fieldsOf(value: unknown): Fields {
  return isJsonObject(value) ? value : {}
}

/** The token by which a request asks for notifications of progress. */
export function progressTokenOf(params: unknown): JsonValue | undefined {
  const meta = isJsonObject(params) ? params['_meta'] : undefined
  const token = isJsonObject(meta) ? meta['progressToken'] : undefined
  return typeof token === 'string' || typeof token === 'number' ? token : undefined
}
