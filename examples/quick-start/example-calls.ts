// The example's agent: a refund that it repeats until a reviewer has decided, and every two seconds a call that the policy allows
// or one that it denies, so that the console has something to show.
import { setTimeout as delay } from 'node:timers/promises'
import { VERSION } from './tool-server.js'

/** Longest wait for a decision in one request, in seconds. */
const WAIT_SEC = 30
const EVERY_MS = 2000
/** It then stops, as an example that is left running would reach the limit of the day. */
const MAX_CALLS = 3000

export interface ExampleCalls {
  /** Resolves to what became of the refund; undefined if `stop` came first. */
  readonly refund: Promise<string | undefined>
  /** Resolves after the last of the other calls. */
  readonly others: Promise<void>
  stop(): void
}

export async function sendExampleCalls(url: string): Promise<ExampleCalls> {
  const stopped = new AbortController()
  const call = (tool: string, args: object, headers: Record<string, string> = {}) =>
    fetch(`${url}/mcp/billing/${tool}@${VERSION}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-agent-ref': 'example-agent', ...headers },
      body: JSON.stringify(args),
      signal: stopped.signal,
    }).then((response) => response.json())
  const look = () => call('get_invoice', { invoice: 'INV-1001' })
  const remove = () => call('delete_customer', { customer: 'Harbour Bakery' })
  await look()
  await remove()
  const reason = 'Okafor & Daughters paid INV-1003, and the delivery was a week late.'
  const state = Buffer.from(JSON.stringify({ metadata: { reason } })).toString('base64url')
  const refund = { invoice: 'INV-1003', amount: 86, reason: 'delivered late' }
  const headers = { 'x-agent-state': state }
  await call('refund_payment', refund, headers)
  const untilStopped = <T>(work: Promise<T>): Promise<T | undefined> =>
    work.catch((error: unknown) => {
      if (stopped.signal.aborted) return undefined
      throw error
    })
  const goOn = async (): Promise<void> => {
    for (let calls = 0; calls < MAX_CALLS; calls++) {
      await delay(EVERY_MS, undefined, { signal: stopped.signal })
      await (calls % 3 === 1 ? remove() : look())
    }
  }
  return {
    refund: untilStopped(
      repeat(() => call('refund_payment', refund, { ...headers, 'x-escalation-wait': String(WAIT_SEC) })),
    ),
    others: untilStopped(goOn()),
    stop: () => stopped.abort(),
  }
}

async function repeat(refund: () => Promise<unknown>): Promise<string> {
  for (;;) {
    const response = await refund()
    const error =
      typeof response === 'object' && response !== null && 'error' in response ? response.error : undefined
    if (error === undefined) return 'The refund was approved, and sent: ok.'
    if (error !== 'ESCALATION_PENDING') return `The refund was not sent: ${error}.`
  }
}
