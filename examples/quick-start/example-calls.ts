// The example's agent: a call that the policy allows, one that it denies, and a refund that it repeats until a reviewer has
// decided, so that the console has something to show.
import { VERSION } from './tool-server.js'

/** Longest wait for a decision in one request, in seconds. */
const WAIT_SEC = 30

export interface ExampleCalls {
  /** Resolves to what became of the refund; undefined if `stop` came first. */
  readonly refund: Promise<string | undefined>
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
  await call('get_invoice', { invoice: 'INV-1001' })
  await call('delete_customer', { customer: 'Harbour Bakery' })
  const reason = 'Okafor & Daughters paid INV-1003, and the delivery was a week late.'
  const state = Buffer.from(JSON.stringify({ metadata: { reason } })).toString('base64url')
  const refund = { invoice: 'INV-1003', amount: 86, reason: 'delivered late' }
  const headers = { 'x-agent-state': state }
  await call('refund_payment', refund, headers)
  return {
    refund: repeat(() =>
      call('refund_payment', refund, { ...headers, 'x-escalation-wait': String(WAIT_SEC) }),
    ).catch((error: unknown) => {
      if (stopped.signal.aborted) return undefined
      throw error
    }),
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
