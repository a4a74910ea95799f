// Room in memory for the large body of a request, which is read only once there is some.
import { type Abortable, Refusal } from '@svc/core'
import type { BudgetUser } from '../budget/budget.js'
import { requestBudget } from '../budget/process-budgets.js'
import { largeBodyBytes } from './body.js'
import type { ClientExchange } from './client-exchange.js'

/**
 * Resolves with the function that gives the room back; undefined if the body needs none. Rejects with the reason of the
 * signal, by default of one that aborts when the client disconnects.
 */
export async function roomForBody(
  client: ClientExchange,
  user: BudgetUser,
  maxBytes: number,
  signal?: Abortable,
): Promise<(() => void) | undefined> {
  const bytes = largeBodyBytes(client.http, maxBytes)
  return bytes === 0 ? undefined : requestBudget.take(user, bytes, signal ?? disconnectOf(client))
}

function disconnectOf(client: ClientExchange): AbortSignal {
  const left = new AbortController()
  const message = 'The client disconnected before its request was complete.'
  client.onDisconnect(() => left.abort(new Refusal('CANCELLED', message)))
  return left.signal
}
