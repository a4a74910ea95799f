// Budgets of what the process has once, whatever the number of gateways and servers in it: its event loop and its memory.
import { getHeapStatistics } from 'node:v8'
import { MAX_COST } from '@svc/core/json'
import { Budget } from './budget.js'

/** The work on lines that processes write, and on events of servers, is given back after this time, in milliseconds. */
export const lineWindowMs = 2
/** The costs of a line or an event beside its bytes, in bytes: reading one of a few bytes takes as long as 256 bytes of a long one. */
export const lineCost = 256

/** Bytes of lines and events that are read in one window; one server has at most half, so that another is read meanwhile. */
export const lineBudget = new Budget({
  name: 'lines',
  limit: 131_072,
  limitOfOwner: 65_536,
})

/** A message up to this many bytes needs no room in the budgets below. */
export const smallBytes = 1_048_576

const heapBytes = getHeapStatistics().heap_size_limit

/** Bytes of the large requests of clients, until their responses are sent. Parsed, they take several times as much. */
export const requestBudget = budgetOfMemory('requests', heapBytes / 16)

const messageBytes = Math.max(heapBytes / 8, 2 * MAX_COST)

/**
 * Bytes of the large messages of servers, until the call has settled. One server has at most half of its tenant's part; with a
 * heap under 2 GiB, one message may need more.
 */
export const responseBudget = budgetOfMemory('messages', messageBytes, Math.max(messageBytes / 4, MAX_COST))

/** One owner has at most half, so that another one has room meanwhile. */
function budgetOfMemory(name: string, limit: number, limitOfMember = limit / 2): Budget {
  return new Budget({ name, limit, limitOfOwner: limit / 2, limitOfMember })
}
