// Callers of the gateway: most calls are allowed; others are denied, wait for an approval, or fail.
import { randomUUID } from 'node:crypto'

const calls: readonly (readonly [tool: string, args: object])[] = [
  ['list_invoices', {}],
  ['get_invoice', { invoice: 'INV-1001' }],
  ['get_invoice', { invoice: 'INV-1002' }],
  ['delete_customer', { customer: 'Harbour Bakery' }],
  ['refund_payment', { invoice: 'INV-1003', amount: 10, reason: 'charged twice' }],
]

/** The tool server has no such invoice. */
const failing = ['get_invoice', { invoice: 'INV-9999' }] as const
const failingEvery = 40

const pauseMs = 100

/** Sends a call every 100 ms, one after the other. */
export function callContinually(url: string): { stop(): Promise<void> } {
  let isStopped = false
  const loop = async (): Promise<void> => {
    for (let n = 0; !isStopped; n++) {
      const [tool, args] = (n % failingEvery === 1 ? undefined : calls[n % calls.length]) ?? failing
      await call(url, tool, args)
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
  }
  const running = loop()
  return {
    async stop() {
      isStopped = true
      await running
    },
  }
}

async function call(url: string, tool: string, args: object): Promise<void> {
  const headers = { 'content-type': 'application/json', 'idempotency-key': randomUUID() }
  const body = JSON.stringify(args)
  const response = await fetch(`${url}/mcp/billing/${tool}@1.0.0`, { method: 'POST', headers, body })
  await response.arrayBuffer()
}
