// Room in memory for the large body of a request, which is read only once there is some.
import { type Abortable, Refusal } from '@svc/core'
import type { BudgetUser } from '../budget/budget.js'
import { requestBudget, smallBytes } from '../budget/process-budgets.js'
import type { ClientExchange } from './client-exchange.js'

/**
 * Resolves with the function that gives the room back; undefined if the body needs none. A body without a length counts as
 * the largest. Rejects with the reason of the signal, by default of one that aborts when the client disconnects.
 */
export function roomForBody(
  client: ClientExchange,
  user: BudgetUser,
  maxBytes: number,
  signal?: Abortable,
): Promise<() => void> | undefined {
  const { http } = client
  // A message of `svc stdio`, and the body of a request that becomes several calls, are in memory already.
  if (http === undefined || http.complete) return undefined
  const { 'content-length': length, 'transfer-encoding': coding } = http.headers
  const bytes = length === undefined && coding !== undefined ? maxBytes : Number(length ?? 0)
  // A larger body is refused unread.
  if (bytes <= smallBytes || bytes > maxBytes) return undefined
  return requestBudget.take(user, bytes, signal ?? disconnectOf(client))
}

function disconnectOf(client: ClientExchange): AbortSignal {
  const left = new AbortController()
  const message = 'The client disconnected before its request was complete.'
  client.onDisconnect(() => left.abort(new Refusal('CANCELLED', message)))
  return left.signal
}
